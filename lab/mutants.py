"""Does the suite notice small faults? ``python -m lab.mutants [words of a file's path]`` breaks one line at a time.

Each mutant is one edit of one file of the package, made in memory. Its tests run in a forked process, which has
imported the large libraries already; "killed" means that one failed. The files themselves are never touched.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

from attribeam.report.messages import print_lines

ROOT = Path(__file__).parents[1]
_LIBRARIES = ("numpy", "pyarrow.parquet", "torch", "transformers", "spacy", "apache_beam", "pytest")
_LONGEST_SECONDS = 900
_UNREAD = 99
_OUTCOMES = {0: "survived", 1: "killed", -signal.SIGALRM: "killed", _UNREAD: "unread"}

# fmt: off
TESTS = {
    "attribution/evidence/union.py": "test_union test_union_results",
    "attribution/answers/atomic_facts.py": "test_atomic_facts test_bundled_parser",
    "attribution/prompts/token_offsets.py": "test_token_offsets",
    "attribution/attention/capture.py": "test_capture",
    "attribution/attention/reduction.py": "test_attention_model",
    "pipeline/chunk_store.py": "test_chunk_store",
    "attribution/answers/unmatched_values.py": "test_unmatched_values",
    "attribution/answers/quantities.py": "test_unmatched_values",
    "attribution/verdict/judge.py": "test_judge test_claims test_premises",
    "attribution/verdict/claims.py": "test_claims",
}
"""The tests that should notice the mutants of a file; they stand in its folder of ``tests/``."""

MUTANTS = {
    "attribution/evidence/union.py": (
        ("<= isolation_tau) & (unions", "< isolation_tau) & (unions"),
        ("unions[1:] == unions[:-1])", "unions[1:] >= unions[:-1])"),
        ("kept[:-1] |= near", "kept[1:] |= near"),
        ("if not strict:", "if strict:"),
        ("encoded.column_passage >= 0)", "encoded.column_passage > 0)"),
        ("float(attended.sum()) / (end - first)", "float(attended.sum()) / max(len(attended), 1)"),
        ("counts.get(token, 1) + self", "counts.get(token, 0) + self"),
        ("own_token_weight - 1 if", "own_token_weight if"),
        ("positions + window)", "positions + window + 1)"),
        ("(order >= first) &", "(order > first) &"),
        ("evidence[unions, indices] > 0", "evidence[unions, indices] >= 0"),
        ("minimum.reduceat", "maximum.reduceat"),
        ('ends, dtype=np.intp), side="left")', 'ends, dtype=np.intp), side="right")'),
        ("self._sums[ends] - self._sums[firsts]", "self._sums[ends]"),
    ),
    "attribution/answers/atomic_facts.py": (
        ("if word > leader and", "if word >= leader and"),
        ("words[: conjuncts[-1] + 1]", "words[: conjuncts[-1]]"),
        ("if word >= first_other and", "if word > first_other and"),
        ("reformed[word] = reformed[leader]", "reformed[word] = heads[leader]"),
        ("- {coordination[slot], *path}", "- {coordination[slot]}"),
        ("parallel.setdefault(len(self._coordinations[index]), slot)", "pass"),
        ("& ~sum(1 << word for word, is_mark in enumerate(tree.punctuation) if is_mark)", ""),
        ("bits = 1 << word - start\n", "bits = 0\n"),
        ("if leader not in taken and", "if"),
        ("depths[structure[0]])", "-depths[structure[0]])"),
    ),
    "attribution/prompts/token_offsets.py": (
        ("beyond = offsets[:, 1] > len", "beyond = offsets[:, 1] >= len"),
        ('token_starts, side="right")', 'token_starts, side="left")'),
        ("(table[index, 0] < token_ends)", "(table[index, 0] <= token_ends)"),
        ("return trimmed_starts - low, trimmed_ends - low", "return trimmed_starts, trimmed_ends"),
        ("np.minimum(next_visible[starts], ends)", "starts"),
        ("np.minimum(last_visible_end[ends], ends)", "ends"),
        ("text = text.replace(_ANCHOR_OPEN, _REPLACEMENT)", "pass"),
        ("specials[0][0] > 0", "specials[0][0] >= 0"),
    ),
    "attribution/attention/capture.py": (
        ("query.shape[-1] ** -0.5", "query.shape[-2] ** -0.5"),
        ("else window - 1,", "else window,"),
        ("capture.unnumbered) == capture.layer_index", "capture.unnumbered) == 0"),
        ("capture.bidirectional = not rule.causal", "capture.bidirectional = rule.causal"),
        ("softcap=softcap,", "softcap=None,"),
        ('getattr(module, "sinks", None) if s_aux is None else s_aux', "None"),
    ),
    "attribution/attention/reduction.py": (
        ("next(unnumbered) if", "next(unnumbered) + 1 if"),
        ("torch.arange(column_count - 1, -1, -1,", "torch.arange(0, column_count, 1,"),
        ("min(top_k, column_count)", "min(top_k, column_count - 1)"),
        ("torch.stack(finite).all()", "torch.stack(finite).any()"),
        (".mean(0)", ".amax(0)"),
    ),
    "pipeline/chunk_store.py": (
        ("and manifest.input_sha256 == chunk.input.sha256", ""),
        ("and manifest.configuration == self.configuration", ""),
        ("if mark and self.is_committed(chunk):", "if self.is_committed(chunk):"),
        ("if manifest.status is RunStatus.DONE else ()", ""),
        ("sizes.get(file.path) == file.size_bytes", "file.path in sizes"),
        ("[1] == file.sha256", "[1] != ''"),
        ("if name not in names]", "if name in names]"),
        ("if removed:\n            self.remove_results()", "if removed:\n            pass"),
        ("(now := held.get(name)) is None or", "(now := held.get(name)) is not None and"),
        ('pc.equal(batch.column("span_index"), 0)', 'pc.greater_equal(batch.column("span_index"), 0)'),
        ("np.flatnonzero(outcomes != 1)", "np.flatnonzero(outcomes > 1)"),
        ("outcomes != 1)\n    if", "outcomes < 1)\n    if"),
        ("(positions >= rows.row_count)", "(positions > rows.row_count)"),
        ("outcomes[written] + times, 255", "outcomes[written] + 1, 255"),
        ("audited=answers.total()", "audited=spans.total()"),
        ("files not in ([], [rows.file]) or", ""),
    ),
    "attribution/answers/unmatched_values.py": (
        ("all(map(passage.repeats", "any(map(passage.repeats"),
        ("_DECADE = (Decimal(0), Decimal(9))", "_DECADE = (Decimal(0), Decimal(0))"),
        ("and amount > 1 and", "and"),
        ("if not any(taken[start:end]):", "if True:"),
        ("self.minutes.isdisjoint(times | passage.sizes(Kind.PERHAPS_MINUTE))", "True"),
    ),
    "attribution/answers/quantities.py": (
        ("int(digits) // 100 + 1", "int(digits) // 100"),
        ("_half_of_last_digit(number))", "2 * _half_of_last_digit(number))"),
        ("(amount - 32) * 5 / 9", "(amount - 32) * 9 / 5"),
        ("ending, written = int(match[1]) + 1", "ending, written = int(match[1])"),
        ("Decimal(6) if count", "Decimal(12) if count"),
    ),
    "attribution/verdict/judge.py": (
        ("if score < self._unsupported:", "if score <= self._unsupported + 0.2:"),
        ("1 - _probability(odds + shift)", "1 - _probability(odds - shift)"),
        ("return tuple(sorted(judged, key=of_words.__getitem__)[-1:])", "return ()"),
        ("copied_share < _COPIED_SHARE", "copied_share > _COPIED_SHARE"),
        ("if flagged else ()", ""),
        ("_Why(UnsupportedReason.OTHER_TIME, expected)", "_Why(UnsupportedReason.OTHER_VALUE, expected)"),
        ("rival[0].behind != own.behind", "rival[0].behind == own.behind"),
        ('if numbers["denied"] > 0:', 'if numbers["denied"] < 0:'),
    ),
    "attribution/verdict/claims.py": (
        ("inner[0] if inner and left < _FEWEST_CONTENT_WORDS else number", "number"),
        ("if word not in nested]", "]"),
        ("key=lambda other: spans[other].chars.char_end - spans[other].chars.char_start", "key=lambda other: other"),
        ("SpanClaim(self._indices[head]", "SpanClaim(head"),
    ),
}
# fmt: on
"""Of each file pairs of old and new text."""


def main(chosen: list[str]) -> None:
    """Run all mutants, or those of the files whose path has one of the words; print each, then the sum."""
    for name in _LIBRARIES:
        importlib.import_module(name)
    outcomes: Counter[str] = Counter()
    for path, pairs in MUTANTS.items():
        if not chosen or any(word in path for word in chosen):
            print_lines(f"{_run(path, '', ''):9} {path} as it is")
            for old, new in pairs:
                outcomes[outcome := _run(path, old, new)] += 1
                print_lines(f"{outcome:9} {path}: {' '.join(old.split())} -> {' '.join(new.split())}")
    print_lines(", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items())))


def _run(path: str, old: str, new: str) -> str:
    """ "killed", "survived", "stale" where the file has not the old text once, "unread" where no test imports it."""
    source = (ROOT / path).read_text(encoding="utf-8")
    if old and source.count(old) != 1:
        return "stale"
    child = os.fork()
    if not child:
        ended = -1
        try:
            ended = _test(path, source.replace(old, new) if old else source)
        finally:
            os._exit(ended)
    return _OUTCOMES.get(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "broken")


def _test(path: str, source: str) -> int:
    """Run a file's tests on ``source`` in its place; the exit code of pytest.

    Asserts stay plain, since pytest reads the modules whose asserts it rewrites past ``SourceFileLoader``.
    """
    import pytest

    get_code, read = SourceFileLoader.get_code, False

    def mutated(loader: SourceFileLoader, name: str) -> CodeType | None:
        nonlocal read
        if Path(loader.path).resolve() != ROOT / path:
            return get_code(loader, name)
        read = True
        return compile(source, loader.path, "exec")

    SourceFileLoader.get_code = mutated  # type: ignore[method-assign, assignment]
    signal.alarm(_LONGEST_SECONDS)
    tests = [str(Path("tests", path).with_name(f"{name}.py")) for name in TESTS[path].split()]
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        outcome = int(pytest.main(["-x", "-n0", "--assert=plain", "-p", "no:cacheprovider", *tests]))
    return outcome if read else _UNREAD


if __name__ == "__main__":
    main(sys.argv[1:])
