"""What of the suite does not run, with the reason and the way to fill it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evaluation.suite.data_files import FoundData, Section


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of the suite that does not run: why, and the options or data that fill it."""

    what: str
    reason: str
    remedy: str


def left_out(
    found: FoundData, *, has_language_model: bool, has_nli_model: bool, has_chinese_parser: bool
) -> Iterator[LeftOut]:
    """In the order of the tables; other models come last, because a run is of one."""
    if not has_language_model:
        reason = "the model is no causal language model, and none is named"
        yield LeftOut("cci and log-probability drops", reason, "--language-model NAME")
    if not found.of(Section.CITATIONS):
        yield LeftOut("sentence level", "no ALCE result file", "alce/*.json and --nli-model NAME")
    elif not has_nli_model:
        yield LeftOut("sentence level", "no NLI model is named", "--nli-model NAME")
    if not found.of(Section.SUPPORT):
        yield LeftOut("support labels", "no RAGTruth", "ragtruth/response.jsonl and ragtruth/source_info.jsonl")
    yield from _chinese(has_data=bool(found.of(Section.CHINESE)), has_parser=has_chinese_parser)
    yield LeftOut("other models", "a run is of one model", "--model NAME and another --output")


def _chinese(*, has_data: bool, has_parser: bool) -> Iterator[LeftOut]:
    lacking = []
    if not has_data:
        lacking.append(("no Chinese data", "chinese/quotesum*.jsonl, chinese/veri_gran*.jsonl or chinese/*.parquet"))
    if not has_parser:
        lacking.append(("no Chinese parser is named", "--chinese-parser NAME"))
    if lacking:
        reasons, remedies = zip(*lacking, strict=True)
        yield LeftOut("Chinese", ", ".join(reasons), " and ".join(remedies))
