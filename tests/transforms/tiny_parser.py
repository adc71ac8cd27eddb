"""A small dependency parser of random weights, saved to a directory so that tests load it as users load theirs."""

import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed

_WORDS = ["The", "keeper", "lit", "the", "lamp", "."]
_HEADS = [1, 2, 2, 4, 2, 2]
_LABELS = ["det", "nsubj", "root", "det", "obj", "punct"]


def save_tiny_parser(directory):
    """Write an English pipeline with an untrained parser of one seed."""
    fix_random_seed(7)
    nlp = spacy.blank("en")
    nlp.add_pipe("parser", config={"model": {"tok2vec": {**_TOK2VEC}}})
    nlp.initialize(lambda: [Example(Doc(nlp.vocab, _WORDS), Doc(nlp.vocab, _WORDS, heads=_HEADS, deps=_LABELS))])
    nlp.to_disk(directory)
    return directory


_TOK2VEC = {
    "@architectures": "spacy.HashEmbedCNN.v2", "width": 8, "depth": 1, "embed_size": 50, "window_size": 1,
    "maxout_pieces": 2, "subword_features": True, "pretrained_vectors": None,
}  # fmt: skip
