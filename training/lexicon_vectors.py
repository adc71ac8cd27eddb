"""Drawing the vectors of words of like sense together (retrofitting; Faruqui et al., 2015)."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations

import torch
from tokenizers import Tokenizer

from training.lexicon_groups import LEXICON, lexicon_lines, word_groups
from training.quantity_wording import quantity_groups

ROUNDS = 10
SPACE = "Ġ"


def like_words() -> Iterator[tuple[str, ...]]:
    """The groups of words of like sense, and the families of words of one stem."""
    yield from word_groups()
    yield from quantity_groups()
    for line in lexicon_lines(LEXICON / "families.txt"):
        yield tuple(word.strip() for word in line.replace(":", ",").split(","))


def like_tokens(tokenizer: Tokenizer, groups: Iterable[Sequence[str]]) -> list[tuple[int, int]]:
    """Pairs of different tokens whose vectors belong together, in both orders, each once.

    Tokens of one group, and the ways to write one word: at the start of a text and behind a space, small and with a
    capital. Words of several tokens are left out.
    """
    vocabulary = tokenizer.get_vocab()
    pairs: set[tuple[int, int]] = set()
    for group in groups:
        words = [word.lower() for word in group if " " not in word]
        forms = [[vocabulary[form] for form in _forms(word) if form in vocabulary] for word in words]
        for tokens in [*forms, [some[0] for some in forms if some]]:
            pairs.update(permutations(tokens, 2))
    return sorted(pair for pair in pairs if pair[0] != pair[1])


def draw_together(vectors: torch.Tensor, pairs: Sequence[tuple[int, int]]) -> torch.Tensor:
    """``vectors`` [tokens, size], each halfway between its own and the mean of those it is paired with.

    The lengths stay; tokens in no pair stay as they are.
    """
    if not pairs:
        return vectors
    first, second = torch.tensor(pairs).T
    counts = torch.zeros(len(vectors), 1).index_add_(0, first, torch.ones(len(pairs), 1))
    own, lengths = torch.nn.functional.normalize(vectors), vectors.norm(dim=1, keepdim=True)
    drawn = own
    for _ in range(ROUNDS):
        means = torch.zeros_like(own).index_add_(0, first, drawn[second]) / counts.clamp_min(1)
        drawn = torch.nn.functional.normalize(torch.where(counts > 0, own + means, own))
    result: torch.Tensor = drawn * lengths
    return result


def _forms(word: str) -> Iterator[str]:
    """How the tokenizer writes a word of one token, the commonest way first."""
    for written in (word, word.capitalize()):
        yield SPACE + written
        yield written
