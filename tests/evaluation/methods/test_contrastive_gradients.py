"""Contrastive gradients by hand, against the definition, and where they cannot be had."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.attribution.language_models.test_decoder import RECORD
from tests.attribution.tiny_models import save_tiny_model
from transformers import AutoModelForCausalLM

from attribeam.attribution.language_models.language_model import LanguageModel
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.evaluation.methods.language_context import contrast_tokens, contrastive_saliency
from attribeam.schemas import Reason, RowFault


class WeightedSum:
    """A language model whose logits are W times a sum of embeddings, each times its place's factor."""

    factors = torch.tensor([3.0, 1.0, 2.0, 0.0])
    output = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 5.0]])
    infinite = False

    def embeddings(self, row):
        return torch.ones(1, len(row.token_ids), 2)

    def response_logits(self, rows, *, embeddings):
        (row,) = rows
        hidden = (self.factors[:, None] * embeddings[0]).sum(0) * (float("inf") if self.infinite else 1.0)
        return [(hidden @ self.output.T).expand(len(row.token_ids) - row.prompt_length, -1)]


def row_of(token_ids: list[int], prompt_length: int) -> EncodedRow:
    nothing = np.zeros(prompt_length, dtype=np.int32)
    responses = np.zeros(len(token_ids) - prompt_length, dtype=np.int32)
    ids = np.array(token_ids, dtype=np.int32)
    columns = (nothing - 1, nothing.astype(bool), nothing, nothing)
    return EncodedRow(ids, prompt_length, *columns, responses, responses)


def test_saliency_is_the_norm_of_the_difference_of_two_logits_gradients():
    # the gradient of logit 0 - logit 1 at place j is factor_j * (3, 4), of length 5 * factor_j
    row = row_of([7, 7, 7, 0], 3)
    found = contrastive_saliency(WeightedSum(), row, responses=[0], contrast=[1])
    assert found.tolist() == [[15.0, 5.0, 10.0]]


def test_what_stands_behind_the_last_token_is_not_read(tmp_path):
    model = LanguageModel.from_pretrained(ModelOptions(model=str(save_tiny_model(tmp_path)), device="cpu"))
    row = model.encode(RECORD)
    read = []
    handle = model._model.register_forward_pre_hook(
        lambda _module, _inputs, named: read.append(named["inputs_embeds"].shape[1]), with_kwargs=True
    )
    found = contrastive_saliency(model, row, responses=[2, 0], contrast=[5, 6])
    handle.remove()
    assert read == [row.prompt_length + 3] < [len(row.token_ids)]
    other = replace(row, token_ids=np.append(row.token_ids[:-1], row.token_ids[0]))
    torch.testing.assert_close(contrastive_saliency(model, other, responses=[2, 0], contrast=[5, 6]), found)


def test_gradient_that_is_not_finite_is_a_fault():
    model = WeightedSum()
    model.infinite = True
    with pytest.raises(RowFault) as fault:
        contrastive_saliency(model, row_of([7, 7, 7, 0], 3), responses=[0], contrast=[1])
    assert fault.value.reason is Reason.NON_FINITE_ATTENTION


def naive_saliency(directory, row, response: int, contrast: int):
    """The definition, in float64, on the tokens before the response token and nothing else."""
    model = AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager", dtype=torch.float64)
    ids = torch.from_numpy(row.token_ids.astype(np.int64))
    place = row.prompt_length + response
    embedded = model.get_input_embeddings()(ids[None, :place]).detach().requires_grad_()
    log_probabilities = model(inputs_embeds=embedded).logits[0, -1].log_softmax(-1)
    value = log_probabilities[ids[place]] - (0 if contrast == ids[place] else log_probabilities[contrast])
    value.backward()
    return embedded.grad[0, : row.prompt_length].norm(dim=-1)


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt2"])
def test_saliency_of_a_model_is_that_of_the_definition(tmp_path, kind):
    directory = save_tiny_model(tmp_path, kind)
    model = LanguageModel.from_pretrained(ModelOptions(model=str(directory), device="cpu"))
    row = model.encode(replace(RECORD, answer="In 1874."))
    responses = range(len(row.token_ids) - row.prompt_length)
    own = row.token_ids[row.prompt_length :].tolist()
    contrast = [own[0], *[(token + 5) % 300 for token in own[1:]]]
    found = contrastive_saliency(model, row, responses=responses, contrast=contrast)
    for response in responses:
        expected = naive_saliency(directory, row, response, contrast[response])
        np.testing.assert_allclose(found[response], expected, rtol=1e-3, atol=1e-4 * float(expected.max()))


def test_contrast_is_the_likeliest_token_and_the_lower_of_equals():
    assert contrast_tokens(torch.tensor([[-1.0, -0.5, -2.0], [-1.0, -3.0, -1.0]])) == [1, 0]
