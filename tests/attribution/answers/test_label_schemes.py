import pytest

from attribution.answers.label_schemes import SPACY_ENGLISH, UNIVERSAL, base_label, label_scheme, scheme_of_labels


def test_scheme_is_read_from_the_pipelines_labels() -> None:
    assert scheme_of_labels(["nsubj", "dobj", "pobj", "ROOT"]) is SPACY_ENGLISH
    assert scheme_of_labels(["nsubj:pass", "obj", "obl", "root"]) is UNIVERSAL
    assert scheme_of_labels([]) is UNIVERSAL


def test_scheme_is_found_by_its_name() -> None:
    assert label_scheme("universal") is UNIVERSAL
    assert label_scheme("spacy-english") is SPACY_ENGLISH


def test_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'spacy-english', 'universal'"):
        label_scheme("stanford")


def test_base_label_drops_the_subtype() -> None:
    assert [base_label(label) for label in ("nsubj:pass", "obj")] == ["nsubj", "obj"]
