"""The parser's training: word vectors first, then the loop.

Static word vectors learned from pages of running text by counting neighbours: PPMI and a truncated SVD.

The contexts of a word are the frequent words one and two places to its left and right. Each place is counted
separately, so that words with the same role in a sentence get similar vectors. Words are lower-cased.

The training loop of the parser; a killed run resumes exactly, because every step has its own seed.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import cast

import numpy
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.strings import StringStore
from spacy.training import Example
from spacy.vectors import Vectors  # type: ignore[import-not-found]
from thinc.api import Optimizer
from tqdm import tqdm

from attribeam.schemas.files import new_file
from lab.data_files import read_page_file
from lab.training.loss_curve import draw_loss_curve
from lab.training.parser.treebank import Sentence, build_doc, cut_at_random, group_by_document

Floats = NDArray[numpy.float32]
Places = NDArray[numpy.int64]

WORD = re.compile(
    r"n't\b|'(?:s|re|ve|ll|d|m)\b|[^\W\d_]+(?=n't\b)|[^\W\d_]+(?:\.[^\W\d_]\.)*|\d+(?:[.,:]\d+)*|[^\w\s]+|\S"
)
SHIFTS = (-2, -1, 1, 2)
CONTEXTS = 2000
SMOOTHING = 0.75
OVERSAMPLING = 20
POWER_ITERATIONS = 3
EDGE = -1


@dataclass(frozen=True)
class WordVectors:
    """Lower-cased words, most frequent first, with one row of ``values`` each, whose length is sqrt(columns)."""

    words: list[str]
    values: Floats

    def as_spacy(self, strings: StringStore) -> Vectors:
        """The vectors as spaCy looks them up, by ``Token.lower_``."""
        return Vectors(strings=strings, data=self.values, keys=self.words, attr="LOWER", name="neighbours")

    def save(self, path: Path) -> None:
        """Write one ``.npz`` file atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(path) as stream:
            numpy.savez(stream, words=numpy.array(self.words), values=self.values)


def load_vectors(path: Path) -> WordVectors:
    """Read the vectors that ``WordVectors.save`` wrote."""
    with numpy.load(path) as arrays:
        return WordVectors(words=arrays["words"].tolist(), values=arrays["values"])


def read_paragraphs(paths: Iterable[Path]) -> Iterator[str]:
    """The paragraphs of all pages in all files (see ``read_page_file``)."""
    for path in paths:
        for page in read_page_file(path):
            yield from page.paragraphs


def learn_vectors(paragraphs: Iterable[str], *, words: int, columns: int, seed: int) -> WordVectors:
    """Vectors of the ``words`` most frequent words; this needs about 16 bytes x ``words`` x 8,000 of memory.

    Raises:
        ValueError: if the text has fewer different words than ``columns``.
    """
    forms, ranks = _ranked(paragraphs)
    size = min(words, len(forms))
    if size < columns:
        raise ValueError(f"expected at least {columns} different words in the pages, found {size}")
    ppmi = _positive_information(_count_neighbours(ranks, words=size, contexts=min(CONTEXTS, size)))
    values = _reduced(ppmi, columns=columns, rng=numpy.random.default_rng(seed))
    return WordVectors(words=forms[:size], values=values)


def _ranked(paragraphs: Iterable[str]) -> tuple[list[str], Places]:
    """The words by decreasing frequency, and the text as ranks, with ``EDGE`` at the borders of paragraphs."""
    ids: dict[str, int] = {}
    edge = numpy.full(max(SHIFTS), EDGE, dtype=numpy.int64)
    pieces = [edge]
    for paragraph in paragraphs:
        words = WORD.findall(paragraph.lower().replace("’", "'"))
        pieces.append(numpy.fromiter((ids.setdefault(word, len(ids)) for word in words), numpy.int64, len(words)))
        pieces.append(edge)
    text = numpy.concatenate(pieces)
    order = numpy.argsort(-numpy.bincount(text[text != EDGE], minlength=len(ids)), kind="stable")
    rank = numpy.empty(len(ids) + 1, dtype=numpy.int64)
    rank[order], rank[EDGE] = numpy.arange(len(ids)), EDGE
    forms = list(ids)
    return [forms[index] for index in order], rank[text]


def _count_neighbours(ranks: Places, *, words: int, contexts: int) -> Floats:
    """float32 [``words``, shifts x (``contexts`` + 2)]: counts of each context, of a border, and of all rarer words."""
    columns = contexts + 2
    tables = []
    for shift in SHIFTS:
        word, context = (ranks[-shift:], ranks[:shift]) if shift < 0 else (ranks[:-shift], ranks[shift:])
        counted = (word != EDGE) & (word < words)
        column = numpy.where(context < contexts, context, contexts + 1)
        column[context == EDGE] = contexts
        cells = numpy.bincount(word[counted] * columns + column[counted], minlength=words * columns)
        tables.append(cells.reshape(words, columns).astype(numpy.float32))
    return numpy.concatenate(tables, axis=1)


def _positive_information(counts: Floats) -> Floats:
    """max(0, log p(context | word) / p(context)), with frequent contexts damped (Levy et al. 2015)."""
    shares = counts.sum(axis=0) ** SMOOTHING
    expected = counts.sum(axis=1, keepdims=True) * (shares / shares.sum())
    with numpy.errstate(divide="ignore", invalid="ignore"):
        information = numpy.log(counts / expected)
    positive: Floats = numpy.nan_to_num(numpy.maximum(information, 0), nan=0.0).astype(numpy.float32)
    return positive


def _reduced(matrix: Floats, *, columns: int, rng: numpy.random.Generator) -> Floats:
    """Left singular vectors times square roots of singular values, by random projection, with rows of equal length."""
    rank = min(columns + OVERSAMPLING, *matrix.shape)
    basis = matrix @ rng.standard_normal((matrix.shape[1], rank), dtype=numpy.float32)
    for _ in range(POWER_ITERATIONS):
        basis = matrix @ (matrix.T @ numpy.linalg.qr(basis)[0])
    basis = numpy.linalg.qr(basis)[0]
    left, values, _ = numpy.linalg.svd(basis.T @ matrix, full_matrices=False)
    rows = (basis @ left)[:, :columns] * numpy.sqrt(values[:columns])
    lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
    scaled: Floats = (rows / numpy.maximum(lengths, 1e-9) * numpy.sqrt(columns)).astype(numpy.float32)
    return scaled


ParameterKey = tuple[int, str]
MOMENTS = ("mom1", "mom2", "averages")


@dataclass
class History:
    """The current step, the best selection score, and the curves with one value per evaluation."""

    step: int = 0
    best: float = float("-inf")
    steps: list[int] = field(default_factory=list)
    series: dict[str, list[float]] = field(default_factory=dict)

    @property
    def steps_since_evaluation(self) -> int:
        """The number of steps that the losses of the next evaluation are summed over."""
        return self.step - (self.steps[-1] if self.steps else 0)

    def add(self, values: dict[str, float]) -> None:
        """Append one value to every curve, at the current step."""
        self.steps.append(self.step)
        for name, value in values.items():
            self.series.setdefault(name, []).append(float(value))


@dataclass(frozen=True)
class Checkpoint:
    """One ``.npz`` file with parameters, optimizer state and history, replaced atomically."""

    path: Path

    def save(self, nlp: Language, optimizer: Optimizer, history: History) -> None:
        """Write everything; if the process is killed meanwhile, the previous file stays intact."""
        arrays = {"history": numpy.array(json.dumps(asdict(history)))}
        for name, (key, value) in named_parameters(nlp).items():
            arrays[f"{name}/value"] = value
            arrays[f"{name}/updates"] = numpy.array(optimizer.nr_update[key])
            for moment in MOMENTS:
                if key in getattr(optimizer, moment):
                    arrays[f"{name}/{moment}"] = getattr(optimizer, moment)[key]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with new_file(self.path) as stream:
            numpy.savez(stream, **arrays)  # type: ignore[arg-type]

    def load(self, nlp: Language, optimizer: Optimizer) -> History:
        """Load the saved state into ``nlp`` and ``optimizer``; return an empty history if nothing was saved yet."""
        if not self.path.exists():
            return History()
        with numpy.load(self.path) as arrays:
            for name, (key, value) in named_parameters(nlp).items():
                value[...] = arrays[f"{name}/value"]
                optimizer.nr_update[key] = int(arrays[f"{name}/updates"])
                for moment in MOMENTS:
                    if f"{name}/{moment}" in arrays:
                        getattr(optimizer, moment)[key] = arrays[f"{name}/{moment}"]
            return History(**json.loads(arrays["history"].item()))


def named_parameters(nlp: Language) -> dict[str, tuple[ParameterKey, Floats]]:
    """Every parameter, with its key in the optimizer, by a name that is the same in every process."""
    parameters: dict[str, tuple[ParameterKey, Floats]] = {}
    trainable = ((name, pipe) for name, pipe in nlp.pipeline if isinstance(pipe, TrainablePipe))
    for component, pipe in trainable:
        for position, node in enumerate(pipe.model.walk()):
            for name in node.param_names:
                if node.has_param(name):
                    parameters[f"{component}/{position}/{name}"] = ((node.id, name), cast(Floats, node.get_param(name)))
    return parameters


SEPARATORS = ("\n\n", "\n\n", "\n\n", "\n", " ", " ")
LONGEST_PIECE = 10


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train: ``steps`` updates of about ``batch_words`` words, evaluated regularly.

    A run may end early, after the evaluation at step ``stop_after``; 0 means that it runs to the end.
    """

    steps: int = 6000
    batch_words: int = 500
    evaluate_every: int = 500
    seed: int = 0
    stop_after: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_words", "evaluate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} should be at least 1, was: {getattr(self, name)}")

    @property
    def last_step(self) -> int:
        """The step at which the run ends."""
        return min(self.steps, self.stop_after or self.steps)

    def learning_rate(self, step: int, *, peak: float) -> float:
        """The rate at ``step``: rising to ``peak`` over the first 5% of steps, then falling linearly to 5% of it."""
        warm = max(1, self.steps // 20)
        if step < warm:
            return peak * (step + 1) / warm
        return peak * max(0.05, (self.steps - step) / max(1, self.steps - warm))

    def seed_at(self, step: int) -> None:
        """Seed every random generator that an update uses (dropout, choice of oracle)."""
        seed = self.seed + 1_000_003 * (step + 1)
        random.seed(seed)
        numpy.random.seed(seed % 2**32)


@dataclass(frozen=True)
class Folders:
    """``output`` receives the best pipeline; ``work`` holds the state to resume from and the picture of the curves."""

    output: Path
    work: Path

    @property
    def checkpoint(self) -> Checkpoint:
        """The state of the run."""
        return Checkpoint(self.work / "state.npz")

    @property
    def vectors(self) -> Path:
        """The word vectors of the run."""
        return self.work / "vectors.npz"

    def replace_output(self, nlp: Language) -> None:
        """Replace the content of ``output`` with ``nlp``, without the words of the training data."""
        partial = self.work / "pipeline.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        nlp.to_disk(partial, exclude=["vocab"])
        _save_vectors(nlp, partial / "vocab")
        shutil.rmtree(self.output, ignore_errors=True)
        self.output.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(partial, self.output)


def _save_vectors(nlp: Language, directory: Path) -> None:
    """Write the vectors for ``spacy.load``; spaCy's own ``vectors.cfg`` does not say that keys are lower-cased."""
    nlp.vocab.to_disk(directory, exclude=["strings", "lookups"])
    (directory / "strings.json").write_text("[]\n")
    settings = {"mode": "default", "attr": nlp.vocab.vectors.attr}
    (directory / "vectors.cfg").write_text(json.dumps(settings) + "\n")


def epoch_batches(nlp: Language, sentences: Sequence[Sentence], *, seed: str, words: int) -> Iterator[list[Example]]:
    """One pass over ``sentences`` in batches of about ``words`` words, cut into documents according to ``seed``."""
    rng = random.Random(seed)
    pieces = list(cut_at_random(group_by_document(sentences), longest=LONGEST_PIECE, rng=rng))
    rng.shuffle(pieces)
    batch: list[Example] = []
    size = 0
    for piece in pieces:
        reference = build_doc(nlp.vocab, piece, separator=lambda: rng.choice(SEPARATORS))
        batch.append(Example(nlp.make_doc(reference.text), reference))
        size += len(reference)
        if size >= words:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def endless_batches(nlp: Language, sentences: Sequence[Sentence], schedule: Schedule) -> Iterator[list[Example]]:
    """Epoch after epoch of ``epoch_batches``, each with its own seed."""
    for epoch in count():
        yield from epoch_batches(nlp, sentences, seed=f"{schedule.seed}/{epoch}", words=schedule.batch_words)


def update(
    nlp: Language, optimizer: Optimizer, batch: list[Example], *, dropout: float, losses: dict[str, float]
) -> None:
    """One step: first compute the gradients of all components, which share ``tok2vec``, then update the weights.

    ``Language.update`` with an optimizer would change ``tok2vec`` before the other components add to its gradient.
    """
    nlp.update(batch, drop=dropout, sgd=False, losses=losses)  # type: ignore[arg-type]
    for _, pipe in nlp.pipeline:
        if isinstance(pipe, TrainablePipe):
            pipe.finish_update(optimizer)


def train(
    nlp: Language,
    optimizer: Optimizer,
    batches: Iterator[list[Example]],
    *,
    schedule: Schedule,
    folders: Folders,
    score: Callable[[Language], dict[str, float]],
) -> None:
    """Train from the state in ``folders.work`` to the last step, and keep the best pipeline in ``folders.output``.

    ``batches`` starts with the batch of the first step; those of finished steps are skipped. ``score`` returns named
    figures, of which ``selection`` selects the best pipeline. The optimizer's learning rate is the peak.
    """
    peak = optimizer.learn_rate
    dropout = nlp.config["training"]["dropout"]
    history = folders.checkpoint.load(nlp, optimizer)
    for _ in range(history.step):
        next(batches)
    losses: dict[str, float] = {}
    with tqdm(total=schedule.last_step, initial=history.step, desc="training", mininterval=5) as bar:
        while history.step < schedule.last_step:
            schedule.seed_at(history.step)
            optimizer.learn_rate = schedule.learning_rate(history.step, peak=peak)
            update(nlp, optimizer, next(batches), dropout=dropout, losses=losses)
            history.step += 1
            bar.update()
            if history.step % schedule.evaluate_every == 0 or history.step == schedule.last_step:
                _evaluate(nlp, optimizer, history, losses, folders=folders, score=score)
                losses = {}


def _evaluate(
    nlp: Language,
    optimizer: Optimizer,
    history: History,
    losses: dict[str, float],
    *,
    folders: Folders,
    score: Callable[[Language], dict[str, float]],
) -> None:
    """Score the averaged weights, keep them if they are the best so far, and save the state of the run."""
    with nlp.use_params(optimizer.averages):
        scores = score(nlp)
        span = history.steps_since_evaluation
        history.add({f"loss {name}": value / span for name, value in losses.items()} | scores)
        if scores["selection"] > history.best:
            history.best = scores["selection"]
            folders.replace_output(nlp)
    folders.checkpoint.save(nlp, optimizer, history)
    draw_loss_curve(history.steps, history.series, folders.work / "loss_curve.png")
    figures = "  ".join(f"{name} {values[-1]:.2f}" for name, values in history.series.items())
    tqdm.write(f"step {history.step}: {figures}")
