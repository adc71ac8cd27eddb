"""Attention and hidden-state methods against the paper's formulas written out over what transformers itself gives."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from tests.attribution.methods.hand_parser import ANSWER, PARSED, PARSER
from tests.attribution.tiny_models import save_tiny_model
from tests.evaluation.methods.naive_paper import (
    algorithm_1,
    augmented,
    document_columns,
    hidden_similarity,
    hss_avg,
    summed,
    top5_mean,
    top_k,
)
from transformers import AutoModel

from attribeam.attribution.answers.atomic_facts import AtomicFacts
from attribeam.attribution.attention.attention_model import AttentionModel
from attribeam.attribution.methods.method import LoadedModels, MethodSettings, PassageScore
from attribeam.attribution.options import ATTN_UNION, ModelOptions
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.evaluation.datasets.dataset_file import LabelledAnswer
from attribeam.evaluation.methods.registry import LabelledContext, lab_methods
from attribeam.schemas import CharRange, Passage, QARecord, RowSource

PASSAGES = (
    Passage(text="Jon dances when Ada sings in the tower, and the keeper lived there.", title="Lamp"),
    Passage(text="Bells ring."),
    Passage(text="Ada Thorne built it; a lamp was seen from twelve miles away."),
)
SPANS = tuple(CharRange(ANSWER.index(text), ANSWER.index(text) + len(text)) for text in ("Ada", "Jon dances", "Bells"))
SENTENCES = (CharRange(0, 25), CharRange(26, 37))


@dataclass(frozen=True)
class Inside:
    """One row through transformers' own eager model: S, attention among response tokens, states of layer 2."""

    encoded: EncodedRow
    similarity: np.ndarray
    among_response: np.ndarray
    states: np.ndarray


@pytest.fixture(scope="module", params=["llama", "bert", "modernbert"])
def both(request, tmp_path_factory):
    directory = save_tiny_model(tmp_path_factory.mktemp(request.param), request.param)
    model = AttentionModel.from_pretrained(ModelOptions(model=str(directory), device="cpu", loaded_layers=4))
    labelled = LabelledAnswer(
        QARecord("r", "Who?", PASSAGES, ANSWER, RowSource("f", 0), target_spans=SPANS), (frozenset({0}),) * len(SPANS)
    )
    return model, labelled, inside(directory, model, labelled, shift=1 if request.param == "llama" else 0)


def inside(directory, model, labelled, *, shift):
    row = model.encode(labelled.record)
    reference = AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    with torch.no_grad():
        ids = torch.from_numpy(row.token_ids.astype(np.int64))[None]
        found = reference(ids, output_attentions=True, output_hidden_states=True)
    attention = found.attentions[model.layer - 1][0].mean(0).numpy()
    rows = attention[row.prompt_length - shift : len(row.token_ids) - shift]
    states = found.hidden_states[2][0].numpy()
    return Inside(row, rows[:, : row.prompt_length], rows[:, row.prompt_length :], states)


def results(both, name, **options):
    model, labelled, _ = both
    settings = MethodSettings(**options)
    method = lab_methods(settings)[name]
    asked = model.with_method(settings.union_options(ATTN_UNION))
    return method.span_results(LabelledContext(labelled, LoadedModels(PARSER, asked)))


def tokens_in(row: EncodedRow, chars: CharRange) -> list[int]:
    return [i for i, one in enumerate(row.response_chars) if one is not None and one.overlaps(chars)]


def fact_tokens(row: EncodedRow, i: int) -> list[int]:
    """A(r_i) by phi and psi of Appendix B."""
    chars = row.response_chars[i]
    words = {word for word, where in enumerate(PARSED.words) if where.overlaps(chars)}
    elements = set().union(*(AtomicFacts(PARSED).words_of(word) for word in words)) if words else set()
    return sorted({i, *(token for word in elements for token in tokens_in(row, PARSED.words[word]))})


def later_tokens(found: Inside, i: int, k: int) -> list[int]:
    """r_i and the later tokens whose top k among the tokens before them has r_i."""
    later = range(i + 1, len(found.among_response))
    return [i, *(j for j in later if i in top_k(found.among_response[j][:j].tolist(), k))]


def covering(row: EncodedRow, tokens: list[int]) -> list[int]:
    return [i for i in tokens if row.response_chars[i] is not None]


def check_union(both, name, similarity, targets, *, k, tau):
    row = both[2].encoded
    document = document_columns(row)
    for result, target in zip(results(both, name, top_k=k, isolation_tau=tau), targets, strict=True):
        w = algorithm_1(similarity, covering(row, target), document, k=k, tau=tau)
        np.testing.assert_allclose(result.passage_scores, summed(w, row, len(PASSAGES)), atol=2e-5)


SETTINGS = [(2, 2), (6, 1), (9, float("inf"))]


@pytest.mark.parametrize(("k", "tau"), SETTINGS)
@pytest.mark.parametrize("name", ["hss-union", "hss-union-dep"])
def test_hidden_union_is_algorithm_1_over_cosines(both, name, k, tau):
    found = both[2]
    similarity = hidden_similarity(found.states, found.encoded.prompt_length)
    targets = [tokens_in(found.encoded, span) for span in SPANS]
    if name == "hss-union-dep":
        targets = [augmented(target, lambda i: fact_tokens(found.encoded, i)) for target in targets]
    check_union(both, name, similarity, targets, k=k, tau=tau)


@pytest.mark.parametrize("name", ["hss-avg", "hss-avg-dep"])
def test_hidden_average_is_the_best_window_of_eight(both, name):
    found = both[2]
    for result, span in zip(results(both, name), SPANS, strict=True):
        target = tokens_in(found.encoded, span)
        if name == "hss-avg-dep":
            target = augmented(target, lambda i: fact_tokens(found.encoded, i))
        expected = hss_avg(found.states, set(covering(found.encoded, target)), found.encoded, len(PASSAGES), window=8)
        np.testing.assert_allclose(result.passage_scores, expected, atol=2e-5)
        (piece,) = result.evidence
        assert piece.passage_index == int(np.argmax(expected))
        assert piece.score == pytest.approx(max(expected), abs=2e-5)


def union_targets(found: Inside, name: str, k: int) -> list[list[int]]:
    row = found.encoded
    targets = [tokens_in(row, span) for span in SPANS]
    match name:
        case "attn-union":
            return targets
        case "attn-union-dep":
            return [augmented(target, lambda i: fact_tokens(row, i)) for target in targets]
        case "attn-union-sent":
            return [tokens_in(row, next(one for one in SENTENCES if one.overlaps(span))) for span in SPANS]
        case "augment-by-attn":
            return [augmented(target, lambda i: later_tokens(found, i, k)) for target in targets]
    local = [set(tokens_in(row, next(one for one in SENTENCES if one.overlaps(span)))) for span in SPANS]
    return [
        [j for j in augmented(target, lambda i: later_tokens(found, i, k)) if j in inside]
        for target, inside in zip(targets, local, strict=True)
    ]


ATTENTION = ["attn-union", "attn-union-dep", "attn-union-sent", "augment-by-attn", "augment-by-attn-sent"]


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize(("k", "tau"), SETTINGS)
def test_attention_method_is_algorithm_1_over_its_targets(both, name, k, tau):
    check_union(both, name, both[2].similarity, union_targets(both[2], name, k), k=k, tau=tau)


@pytest.mark.parametrize("name", ["attn-union", "attn-union-dep", "attn-union-sent"])
def test_mean_of_the_five_best_tokens_decides_where_it_is_asked_for(both, name):
    found, row, tau = both[2], both[2].encoded, float("inf")
    decided = results(both, name, top_k=9, isolation_tau=tau, passage_score=PassageScore.TOP5_MEAN)
    for result, target in zip(decided, union_targets(found, name, 9), strict=True):
        w = algorithm_1(found.similarity, covering(row, target), document_columns(row), k=9, tau=tau)
        np.testing.assert_allclose(result.passage_scores, top5_mean(w, row, len(PASSAGES)), atol=2e-5)
