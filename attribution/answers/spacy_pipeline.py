"""A faster spaCy pipeline on the CPU: parses all documents in lockstep, and computes matrix products with torch.

Trees and products stay the same. Importing this module imports spaCy, thinc and torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy
import torch
from numpy.typing import NDArray
from spacy.language import Language
from spacy.pipeline import DependencyParser
from spacy.tokenizer import Tokenizer  # type: ignore[import-not-found]
from spacy.util import load_config, minibatch, registry
from thinc.api import NumpyOps

if TYPE_CHECKING:
    from spacy.tokens import Doc


LOCKSTEP_FACTORY = "attribeam_lockstep_parser"
_PLAIN_FACTORY = "parser"
_EMPTY_TOKENIZER, _PLAIN_TOKENIZER = "attribeam_empty_tokenizer", "spacy.Tokenizer.v1"
_PRIVATE_PARTS = ("greedy_parse", "transition_states", "_ensure_labels_are_added")
_WORDS_AT_ONCE = 6000
_FEW_DOCUMENTS = 3


class LockstepParser(DependencyParser):  # type: ignore[misc]
    """spaCy's "parser" component, with the same weights and trees.

    spaCy 3.8 takes the maximum over a hidden unit's pieces in a compiled loop that acquires and releases Python's lock
    for each of them: a fifth of the pipeline's time. Here, each step scores the states of all documents with thinc's
    products.
    """

    def greedy_parse(self, docs: Sequence[Doc], drop: float = 0.0) -> Any:
        """The final states of ``docs``; spaCy parses small batches itself, because its loop is as fast there."""
        if drop or len(docs) < _FEW_DOCUMENTS:
            return super().greedy_parse(docs, drop=drop)
        self._ensure_labels_are_added(docs)
        batch = self.moves.init_batch(docs)
        step = self.model.predict(docs)
        states = [state for state in batch if not state.is_final()]
        while states:
            states = self.transition_states(states, step.predict(states))
        step.clear_memory()
        return batch

    def pipe(self, docs: Iterable[Doc], *, batch_size: int = 256) -> Iterator[Doc]:
        """Parse documents and yield them in order; runs similar lengths together, up to ``_WORDS_AT_ONCE`` words."""
        for batch in minibatch(docs, batch_size):  # type: ignore[no-untyped-call]
            remaining = sorted(batch, key=len)
            while remaining:
                words = accumulate(map(len, remaining))
                count = sum(total <= _WORDS_AT_ONCE for total in words) or 1  # a longer one is parsed alone
                part, remaining = remaining[:count], remaining[count:]
                self.set_annotations(part, self.predict(part))
            yield from batch


@Language.factory(LOCKSTEP_FACTORY, default_config={"moves": None, "scorer": {"@scorers": "spacy.parser_scorer.v1"}})
def lockstep_parser(
    nlp: Language,
    name: str,
    model: Any,
    moves: Any,
    scorer: Any,
    update_with_oracle_cut_size: int = 100,
    learn_tokens: bool = False,
    min_action_freq: int = 30,
) -> LockstepParser:
    """A drop-in for spaCy's factory "parser", with the same settings."""
    settings = {"learn_tokens": learn_tokens, "min_action_freq": min_action_freq, "scorer": scorer}
    cut = update_with_oracle_cut_size
    return LockstepParser(nlp.vocab, model, name, moves, update_with_oracle_cut_size=cut, **settings)


@registry.tokenizers(_EMPTY_TOKENIZER)  # type: ignore[untyped-decorator]
def _empty_tokenizer() -> Callable[[Language], Tokenizer]:
    """spaCy's tokenizer without its language's rules, all of which the pipeline's own file replaces."""
    return lambda nlp: Tokenizer(nlp.vocab)


def faster_parts(directory: Path) -> dict[str, Any]:
    """What to override in the configuration of a pipeline's ``directory``: a plain parser and a plain tokenizer.

    The parser's stays where spaCy's lacks the private parts that are needed: then it parses by itself.
    """
    config = load_config(directory / "config.cfg")
    parts: dict[str, Any] = {}
    parser = config.get("components", {}).get("parser", {}).get("factory")
    if parser == _PLAIN_FACTORY and all(hasattr(DependencyParser, part) for part in _PRIVATE_PARTS):
        parts["components"] = {"parser": {"factory": LOCKSTEP_FACTORY}}
    if config.get("nlp", {}).get("tokenizer") == {"@tokenizers": _PLAIN_TOKENIZER}:
        parts["nlp"] = {"tokenizer": {"@tokenizers": _EMPTY_TOKENIZER}}
    return parts


TORCH_PRODUCTS = "attribeam_torch_products"


@registry.ops(TORCH_PRODUCTS)
class TorchProducts(NumpyOps):  # type: ignore[misc]
    """thinc's NumpyOps, with float32 products that use all of torch's threads and the widest CPU instructions."""

    name: Any = TORCH_PRODUCTS

    def gemm(
        self,
        x: NDArray[numpy.float32],
        y: NDArray[numpy.float32],
        out: NDArray[numpy.float32] | None = None,
        trans1: bool = False,
        trans2: bool = False,
    ) -> NDArray[numpy.float32]:
        """The product of two matrices, each transposed first if asked for; written to ``out`` if that is given."""
        first, second = _tensor(x, transposed=trans1), _tensor(y, transposed=trans2)
        if out is None:
            product: NDArray[numpy.float32] = torch.mm(first, second).numpy()
            return product
        torch.mm(first, second, out=torch.from_numpy(out))
        return out


def _tensor(array: NDArray[numpy.float32], *, transposed: bool) -> torch.Tensor:
    tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
    return tensor.T if transposed else tensor
