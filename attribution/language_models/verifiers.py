"""Verifiers of the hub, a directory or another package: loaded by name, and classifiers, which run in batches.

Pair classifiers say whether a premise supports a claim: HHEM, MiniCheck, FactCG, and any with a label for entailment.
Token classifiers have the format of LettuceDetect: the prompt is the first text, the answer the second, and class 1 of
a token of the answer means that it is not supported. The prompt is the one of RAGTruth, in English.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    T5ForTokenClassification,
)

from attribeam.attribution.attention.batching import pack_by_token_budget, run_batches, token_budget_on
from attribeam.attribution.models import as_load_errors, model_folder
from attribeam.attribution.models.model_directory import (
    ModelDirectory,
    load_fast_tokenizer,
    model_context,
    read_model_directory,
)
from attribeam.attribution.models.weight_files import revision_of
from attribeam.attribution.models.weight_loading import read_network
from attribeam.attribution.option_declaration import VERIFIERS
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.verdict.verified import (
    AnswerToVerify,
    ClaimToVerify,
    VerifiedAnswer,
    Verifier,
    calibrated_verifier,
)
from attribeam.schemas import CharRange, Passage, QARecord, Reason, RowFault
from attribeam.schemas.errors import ModelLoadError
from attribeam.schemas.files import read_object

Row = Mapping[str, list[int]]
"""The tokens of one row, by the names of the model's inputs."""
_SPARE_TOKENS = 8
"""Tokens that a window leaves free, since joined texts may have a few more than their parts."""
_FEWEST_TOKENS = 32
"""The least room for passages beside the question and the answer, or beside the claim."""


@dataclass(frozen=True)
class Classifier:
    """A loaded classifier; a verifier is one that can ``verify``.

    Its rows have at most ``most_tokens``, or as many as its positions reach. ``read`` is what is taken of the model's
    logits, the padding of a batch included: one tensor per row.
    """

    directory: ModelDirectory
    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    read: Callable[[PreTrainedModel, dict[str, torch.Tensor]], torch.Tensor]
    most_tokens: int

    @property
    def device(self) -> torch.device:
        return self.network.device

    @property
    def longest(self) -> int:
        """The most tokens of a row."""
        return min(model_context(self.directory.config) or self.most_tokens, self.most_tokens)

    def provenance(self) -> dict[str, str]:
        """Name, revision and precision."""
        return {
            "verifier": self.directory.options.model,
            "verifier_revision": revision_of(self.directory),
            "verifier_dtype": str(self.network.dtype).removeprefix("torch."),
        }

    def row(self, text: str, pair: str | None = None) -> Any:
        """The encoding of one or two texts, with special tokens and offsets.

        Raises ``RowFault`` TOO_MANY_TOKENS if it is longer than the model reads.
        """
        encoding = self.tokenizer(text, pair, return_offsets_mapping=True, verbose=False)
        if len(encoding["input_ids"]) > self.longest:
            raise self._too_long()
        return encoding

    def probabilities(self, rows: Sequence[Row]) -> list[torch.Tensor | RowFault]:
        """The probabilities of the classes of each row, float32 on the host; rows of similar length share a batch."""
        pad_id = getattr(self.network.config, "pad_token_id", None)
        may_pad = (
            pad_id is not None and pad_id == self.tokenizer.pad_token_id and self.tokenizer.padding_side == "right"
        )
        # else each has its own: a decoder reads the last token that its config does not call padding
        budget = token_budget_on(self.network.device, self.directory.options.token_budget) if may_pad else 1
        batches = pack_by_token_budget([len(row["input_ids"]) for row in rows], budget)
        fault = RowFault(Reason.NON_FINITE_ATTENTION, "a verifier's logits should be finite, are not; see --dtype")
        return [
            outcome if isinstance(outcome, RowFault) or bool(outcome.isfinite().all()) else fault
            for outcome in run_batches(rows, batches, self._probabilities)
        ]

    @torch.inference_mode()
    def _probabilities(self, rows: Sequence[Row]) -> list[torch.Tensor]:
        length = max(len(row["input_ids"]) for row in rows)
        names = [name for name in self.tokenizer.model_input_names if name in rows[0]]
        padding = {"input_ids": self.tokenizer.pad_token_id}
        inputs = {
            name: torch.tensor(
                [[*row[name], *[padding.get(name, 0)] * (length - len(row[name]))] for row in rows],
                device=self.network.device,
            )
            for name in names
        }
        return [*self.read(self.network, inputs).float().softmax(dim=-1).cpu()]

    def windows(self, passages: Sequence[Passage], *, overhead: int, lead: str = "") -> Iterator[list[str]]:
        """The texts of the passages in groups that fit beside ``overhead`` tokens, in order.

        A passage that is longer than a window is cut into pieces that overlap by half. ``lead`` stands before each.
        Raises ``RowFault`` TOO_MANY_TOKENS if next to nothing fits.
        """
        room = self.longest - overhead - _SPARE_TOKENS
        if room < _FEWEST_TOKENS:
            raise self._too_long()
        group: list[str] = []
        filled = 0
        for text, length in self._pieces(passages, room, lead):
            if group and filled + length > room:
                yield group
                group, filled = [], 0
            group.append(text)
            filled += length
        if group:
            yield group

    def _pieces(self, passages: Sequence[Passage], room: int, lead: str) -> Iterator[tuple[str, int]]:
        """Texts of at most ``room`` tokens with ``lead`` and a line break, and how many tokens they have."""
        extra = len(self.tokenizer(f"{lead}\n\n", add_special_tokens=False)["input_ids"])
        for passage in passages:
            text = self.plain(f"{passage.title}\n{passage.text}" if passage.title else passage.text)
            tokens = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            offsets, most = tokens["offset_mapping"], max(room - extra, 1)
            if len(offsets) <= most:
                yield text, len(offsets) + extra
                continue
            for start in range(0, len(offsets) - most // 2, max(most // 2, 1)):
                piece = offsets[start : start + most]
                yield text[piece[0][0] : piece[-1][1]], len(piece) + extra

    def plain(self, text: str) -> str:
        """The text without what the tokenizer would take for special tokens, which part premise and claim."""
        for token in self.tokenizer.all_special_tokens:
            text = text.replace(str(token), " ")
        return text

    def _too_long(self) -> RowFault:
        return RowFault(
            Reason.TOO_MANY_TOKENS, f"the verifier reads at most {self.longest} tokens, the answer alone has more"
        )


_MOST_PAIR_TOKENS = 2048
"""Of a row, for models whose positions have no end."""
_MOST_WINDOWS = 4
"""The most premises that a claim is held against; what has most of its evidence comes first."""

_ENTAILMENT = ("entailment", "entailed", "entails", "supported")
_UNSUPPORTED_TOKEN, _SUPPORTED_TOKEN = 3, 209
"""What MiniCheck's T5 writes: "" and "1" of T5's vocabulary."""


_FACTCG_PROMPT = (
    "",
    '\n\nChoose your answer: based on the paragraph above can we conclude that "',
    '"?\n\nOPTIONS:\n- Yes\n- No\nI think the answer is ',
)


@dataclass(frozen=True)
class PairClassifier(Classifier):
    """A verifier that holds each claim against its passages, those with most evidence for it first.

    ``prompt`` is what stands before the premise, between it and the claim, and behind, where both become one text;
    without one, they are the two texts of a pair. ``label`` is the class that means support.
    """

    prompt: tuple[str, str, str] | None
    label: int

    def verify(self, answers: Sequence[AnswerToVerify]) -> list[VerifiedAnswer | RowFault]:
        """See ``Verifier``; of several windows of premises, the one that supports a claim most counts."""
        faults: dict[int, RowFault] = {}
        rows: list[Any] = []
        claim_of: list[tuple[int, int]] = []
        for number, answer in enumerate(answers):
            try:
                windows = [self._rows(answer.record, claim) for claim in answer.claims]
            except RowFault as fault:
                faults[number] = fault
                continue
            rows += [row for of_claim in windows for row in of_claim]
            claim_of += [(number, index) for index, of_claim in enumerate(windows) for _ in of_claim]
        support = [[0.0] * len(answer.claims) for answer in answers]
        for (number, index), outcome in zip(claim_of, self.probabilities(rows), strict=True):
            if isinstance(outcome, RowFault):
                faults.setdefault(number, outcome)
            else:
                support[number][index] = max(support[number][index], float(outcome[self.label]))
        return [faults.get(number) or VerifiedAnswer(tuple(scores)) for number, scores in enumerate(support)]

    def _rows(self, record: QARecord, claim: ClaimToVerify) -> list[Any]:
        text = self.plain(claim.text)
        passages = [record.passages[index] for index in claim.passages]
        overhead = len(self._row("", text)["input_ids"])
        windows = self.windows(passages, overhead=overhead)
        return [self._row("\n\n".join(premise), text) for premise in islice(windows, _MOST_WINDOWS)]

    def _row(self, premise: str, claim: str) -> Any:
        if self.prompt is None:
            return self.row(premise, claim)
        before, between, after = self.prompt
        return self.row(before + premise + between + claim + after)


def entailment_label(labels: Mapping[Any, str], name: str) -> int:
    """The index of the label named "entailment" or similar, in any case; ``name`` is the option with its model.

    Raises ``ModelLoadError`` if there is not exactly one.
    """
    indices = [index for index, label in labels.items() if _means_support(label)]
    if len(indices) != 1 or len(labels) < 2:
        raise ModelLoadError(
            f"{name} should have two or more labels, one of them called {' or '.join(_ENTAILMENT)}, has: "
            f"{[*labels.values()]}; name another model, or correct id2label in its config.json"
        )
    return int(indices[0])


def _means_support(label: str) -> bool:
    return label.strip().lower() in _ENTAILMENT


def read_all(network: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """All logits: of a sequence classifier [rows, classes], of one of tokens [rows, tokens, classes]."""
    logits: torch.Tensor = network(**inputs).logits
    return logits


def read_first_token(network: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The logits of each row's first token, which is where HHEM answers, [rows, classes]."""
    return read_all(network, inputs)[:, 0]


def read_first_word(network: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The logits of the two words that MiniCheck's T5 answers with, [rows, 2]."""
    begin = torch.zeros((len(inputs["input_ids"]), 1), dtype=torch.long, device=network.device)
    return read_all(network, inputs | {"decoder_input_ids": begin})[:, 0, [_UNSUPPORTED_TOKEN, _SUPPORTED_TOKEN]]


_MOST_PROMPT_TOKENS = 4096
"""Of a row: what LettuceDetect was trained on."""
_LEAD = "passage 100: "
_QUESTION = """Briefly answer the following question:
{question}
Bear in mind that your response should be strictly based on the following {count} passages:
{passages}
In case the passages do not contain the necessary information to answer the question, please reply with: "Unable to \
answer based on given passages."
output:"""
_SUMMARY = """Summarize the following text:
{passages}
output:"""


@dataclass(frozen=True, slots=True)
class AnswerDoubts:
    """How doubtful each token of an answer is.

    Attributes:
        chars: the range of each token that covers a character, in the answer.
        doubts: float64 [tokens], the probability that it is not supported.
    """

    chars: tuple[CharRange, ...]
    doubts: npt.NDArray[np.float64]

    def ranges(self) -> tuple[CharRange, ...]:
        """Runs of neighbouring tokens that are rather unsupported than supported."""
        runs = groupby(zip(self.chars, self.doubts, strict=True), key=lambda pair: pair[1] > 0.5)
        doubtful = [[chars for chars, _ in run] for is_doubtful, run in runs if is_doubtful]
        return tuple(CharRange(run[0].char_start, run[-1].char_end) for run in doubtful)

    def support(self, claims: Sequence[ClaimToVerify]) -> tuple[float, ...]:
        """For each claim one minus the largest doubt of a token; a token counts for the shortest claim around it."""
        ranges = [claim.chars for claim in claims]
        shortest = sorted(range(len(claims)), key=lambda index: ranges[index].char_end - ranges[index].char_start)
        inside = np.array([[claim.overlaps(chars) for chars in self.chars] for claim in ranges], dtype=bool)
        own = np.zeros_like(inside)
        for index in shortest:
            own[index] = inside[index] & ~own.any(axis=0)
        counting = [mine if mine.any() else all_ for mine, all_ in zip(own, inside, strict=True)]
        return tuple(1 - float(self.doubts[tokens].max(initial=0.0)) for tokens in counting)


class TokenClassifier(Classifier):
    """A verifier that says of each token of an answer whether it is supported."""

    def verify(self, answers: Sequence[AnswerToVerify]) -> list[VerifiedAnswer | RowFault]:
        return [
            doubts if isinstance(doubts, RowFault) else VerifiedAnswer(doubts.support(answer.claims), doubts.ranges())
            for answer, doubts in zip(answers, self.doubts([answer.record for answer in answers]), strict=True)
        ]

    def doubts(self, records: Sequence[QARecord]) -> list[AnswerDoubts | RowFault]:
        """How doubtful each token of each answer is: of a long row, its least doubt in any window."""
        outcomes: dict[int, AnswerDoubts | RowFault] = {}
        rows, indices = [], []
        for index, record in enumerate(records):
            try:
                windows = [self.row(prompt, record.answer) for prompt in self._prompts(record)]
            except RowFault as fault:
                outcomes[index] = fault
            else:
                rows += windows
                indices += [index] * len(windows)
        for index, row, probabilities in zip(indices, rows, self.probabilities(rows), strict=True):
            before = outcomes.get(index)
            if isinstance(before, RowFault):
                continue
            if isinstance(probabilities, RowFault):
                outcomes[index] = probabilities
                continue
            of_text, ranges = row.sequence_ids(0), row["offset_mapping"]
            tokens = [token for token, (start, end) in enumerate(ranges) if of_text[token] == 1 and start < end]
            doubts = probabilities[tokens, 1].double().numpy()
            chars = tuple(CharRange(*ranges[token]) for token in tokens)
            outcomes[index] = AnswerDoubts(chars, doubts if before is None else np.minimum(doubts, before.doubts))
        return [outcomes[index] for index in range(len(records))]

    def _prompts(self, record: QARecord) -> Iterator[str]:
        overhead = len(self.row(_prompt(record.question, ()), record.answer)["input_ids"])
        for texts in self.windows(record.passages, overhead=overhead, lead=_LEAD):
            yield _prompt(record.question, texts)


def _prompt(question: str, texts: Sequence[str]) -> str:
    passages = "\n".join(f"passage {number}: {text}" for number, text in enumerate(texts, 1))
    if not question.strip():
        return _SUMMARY.format(passages=passages)
    return _QUESTION.format(question=question, count=len(texts), passages=passages)


_HHEM = "HHEMv2"
_HHEM_FOUNDATION = "google/flan-t5-base"
_HHEM_PROMPT = "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: {text1}\n\nHypothesis: {text2}"
_KINDS = "ForTokenClassification, ForSequenceClassification or T5ForConditionalGeneration"


def load_verifier(options: ModelOptions, *, threads: int | None = None) -> Verifier:
    """The verifier that ``options.model`` names, or what was calibrated in the directory of this name.

    ``threads`` sets torch's CPU threads for the whole process. No code of the model's repository runs unless
    ``trust_remote_code`` asks for it. Raises ``ModelLoadError`` if there is no such verifier, or it is of a kind that
    is not read.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    fitted = calibrated_verifier(options.model)
    if fitted is not None:
        options = options.replaced(model=fitted.verifier)
    for entry in entry_points(group=VERIFIERS, name=options.model):
        return _of_package(entry.value, entry.load(), options)
    with as_load_errors(options.model):
        folder, commit = model_folder(options)
        config = read_object(folder / "config.json") if (folder / "config.json").is_file() else {}
        if config.get("model_type") == _HHEM:
            return _hhem(options, folder, commit, config)
        return _of_directory(read_model_directory(options, any_kind=True))


def _of_package(origin: str, factory: Any, options: ModelOptions) -> Verifier:
    try:
        verifier: Verifier = factory(options)
    except TypeError as error:
        raise ModelLoadError(
            f"--verdict {options.model!r}: {origin} should take the options, raised: {error}"
        ) from error
    if not callable(getattr(verifier, "verify", None)) or not callable(getattr(verifier, "provenance", None)):
        raise ModelLoadError(
            f"--verdict {options.model!r}: {origin} should give a verifier with verify and provenance, gave "
            f"{type(verifier).__name__}; docs/extending.md shows one"
        )
    return verifier


def _of_directory(directory: ModelDirectory) -> Verifier:
    """The verifier that the config says it is; the name tells which prompt MiniCheck and FactCG were trained with."""
    config, name = directory.config, directory.options.model
    kind = next(iter(config.architectures or ()), "")
    short_name = Path(name).name.lower()
    tokenizer = load_fast_tokenizer(directory)
    if kind.endswith("ForTokenClassification"):
        if config.num_labels != 2:
            raise ModelLoadError(f"--verdict {name!r} should have two classes for tokens, has {config.num_labels}")
        if _means_support(called := dict[Any, str](config.id2label or {}).get(1, "")):
            raise ModelLoadError(
                f"--verdict {name!r} should have class 1 for tokens that are not supported, its config.json calls it "
                f"{called!r}; name another model, or correct id2label"
            )
        network = _load(directory, AutoModelForTokenClassification)
        return TokenClassifier(directory, network, tokenizer, read_all, _MOST_PROMPT_TOKENS)
    separator = str(tokenizer.eos_token or tokenizer.sep_token or "\n")
    if kind.endswith("ForSequenceClassification"):
        network = _load(directory, AutoModelForSequenceClassification)
        prompt = _FACTCG_PROMPT if "factcg" in short_name else None
        prompt = ("", separator, "") if "minicheck" in short_name else prompt
        label = 1 if prompt else entailment_label(dict(network.config.id2label or {}), f"--verdict {name!r}")
        return PairClassifier(directory, network, tokenizer, read_all, _MOST_PAIR_TOKENS, prompt, label)
    if kind == "T5ForConditionalGeneration":
        network = _load(directory, AutoModelForSeq2SeqLM)
        prompt = ("predict: ", separator, "")
        return PairClassifier(directory, network, tokenizer, read_first_word, _MOST_PAIR_TOKENS, prompt, 1)
    raise ModelLoadError(
        f"--verdict {name!r} should be a verifier of the kind {_KINDS}, its config.json says {kind or 'none'}; a "
        "causal model goes with --verdict smollm2-135m, or a verdict fitted to it, see docs/models.md"
    )


def _hhem(options: ModelOptions, folder: Path, commit: str | None, config: dict[str, Any]) -> Verifier:
    """HHEM 2.1: a T5 encoder with a head, read without the code of its repository, which is for older versions."""
    foundation = str(config.get("foundation", _HHEM_FOUNDATION))
    base = read_model_directory(options.replaced(model=foundation), any_kind=True)
    directory = replace(base, location=str(folder), commit=commit, options=options)
    base.config.num_labels = 2
    before, has_premise, rest = str(config.get("prompt", _HHEM_PROMPT)).partition("{text1}")
    between, has_claim, after = rest.partition("{text2}")
    if not has_premise or not has_claim:
        raise ModelLoadError(
            f"--verdict {options.model!r}: the prompt in config.json should have {{text1}} and {{text2}} in this order"
        )
    network = _load(directory, T5ForTokenClassification, key_mapping={r"^t5\.": ""})
    prompt, tokenizer = (before, between, after), load_fast_tokenizer(base)
    return PairClassifier(directory, network, tokenizer, read_first_token, _MOST_PAIR_TOKENS, prompt, 1)


def load_nli_classifier(options: ModelOptions, *, option: str) -> tuple[Classifier, int]:
    """Any sequence classifier, and its label for entailment; ``option`` is what names it on the command line.

    Raises ``ModelLoadError`` if there is none, it lacks weights, or it has no such label.
    """
    with as_load_errors(options.model):
        directory = read_model_directory(options, any_kind=True)
        tokenizer = load_fast_tokenizer(directory)
        network = _load(directory, AutoModelForSequenceClassification, option=option)
        label = entailment_label(dict(network.config.id2label or {}), f"{option} {options.model!r}")
    return Classifier(directory, network, tokenizer, read_all, tokenizer.model_max_length), label


def _load(directory: ModelDirectory, kind: Any, *, option: str = "--verdict", **reading: Any) -> PreTrainedModel:
    """The whole model, in evaluation mode on its device.

    Raises ``ModelLoadError`` if it lacks weights, or cannot be loaded for another reason.
    """
    options = directory.options
    make = getattr(kind, "from_config", None) or kind
    trusting: dict[str, Any] = {"trust_remote_code": True} if options.trust_remote_code and make is not kind else {}
    with torch.device("meta"):
        needed = sum(weights.numel() for weights in make(directory.config, **trusting).parameters())
    network, missing = read_network(kind, directory, needed=needed, **trusting, **reading)
    if missing:
        raise ModelLoadError(
            f"{option} {options.model!r} should have all weights of a classifier, lacks {len(missing)}: "
            f"{', '.join(missing[:3])}; is it one, and is it complete?"
        )
    return network
