"""Recipe of the bundled attributor: ``python -m lab.train attributor --pages PATH --output DIR``.

Trains a small encoder from scratch. The loss is -log of the attention, averaged over the heads of the last layer, on
the true source of an answer token and on the passage around it. The recipe then sets the support thresholds on rows
from held-out pages, and writes a model directory that loads like any other Hugging Face model. The same command resumes
from the last checkpoint if the output directory has one.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import ModernBertModel

from attribeam.attribution.models.precision import choose_device
from attribeam.attribution.option_declaration import device_name
from attribeam.report.messages import CommandParser
from lab.training.attributor.corpus import Corpus, read_pages, split_held_out
from lab.training.attributor.network import (
    MAX_TOKENS,
    QUERY_POSITION,
    SOFTMAX_OVER,
    VOCABULARY_SIZE,
    Shape,
    load_tokenizer,
    new_model,
    save_tokenizer,
    train_tokenizer,
)
from lab.training.attributor.support_rows import (
    EVIDENCE_WINDOW,
    HELD_OUT_BATCHES,
    ISOLATION_TAU,
    OWN_TOKEN_WEIGHT,
    SENTENCE_WEIGHT,
    TOP_K,
    WORD_WEIGHT,
    Thresholds,
    held_out_masses,
)
from lab.training.attributor.training_loop import TrainingPlan, train
from lab.training.attributor.training_rows import PROMPT_TEMPLATE
from lab.training.loss_curve import check_drawing_is_installed, draw_loss_curve


def save_model(model: ModernBertModel, directory: Path, *, shape: Shape) -> None:
    """Write ``config.json`` and ``model.safetensors`` in float16, which is half the size and is read as float32."""
    half = new_model(shape, vocabulary_size=model.config.vocab_size)
    half.load_state_dict(model.state_dict())
    torch.nn.Module.to(half, torch.float16)
    half.save_pretrained(directory)


def save_attribution_config(directory: Path, thresholds: Thresholds, *, shape: Shape) -> None:
    """Write ``attribution_config.json``, which says how attribution uses this model."""
    settings = {
        "layer": shape.attention_layer,
        "query_position": QUERY_POSITION,
        "softmax_over": SOFTMAX_OVER,
        "top_k": TOP_K,
        "isolation_tau": ISOLATION_TAU,
        "own_token_weight": OWN_TOKEN_WEIGHT,
        "sentence_weight": SENTENCE_WEIGHT,
        "evidence_window": EVIDENCE_WINDOW,
        "word_weight": WORD_WEIGHT,
        "prompt_template": PROMPT_TEMPLATE,
        "supported_threshold": thresholds.supported,
        "weak_threshold": thresholds.weak,
        "dtype": "float32",
    }
    text = json.dumps(settings, indent=2) + "\n"
    (directory / "attribution_config.json").write_text(text, encoding="utf-8")


TOKENIZER_PAGES = 6000


def run_recipe(
    corpus: Corpus,
    *,
    plan: TrainingPlan,
    output: Path,
    device: torch.device,
    vocabulary_size: int = VOCABULARY_SIZE,
    held_out_batches: int = HELD_OUT_BATCHES,
) -> None:
    """Write a whole model directory to ``output``: tokenizer, weights, settings, held-out figures, loss curve."""
    output.mkdir(parents=True, exist_ok=True)
    training_pages, held_out_pages = split_held_out(corpus)
    tokenizer = load_or_train_tokenizer(output, training_pages, vocabulary_size=vocabulary_size)
    model, history = train(training_pages, tokenizer, plan=plan, output=output, device=device)
    save_model(model, output, shape=plan.shape)
    masses = held_out_masses(
        model, tokenizer, held_out_pages, seed=plan.seed, batches=held_out_batches, token_budget=plan.token_budget
    )
    save_attribution_config(output, masses.thresholds(), shape=plan.shape)
    figures = {"auroc": masses.auroc(), "supported": len(masses.supported), "unsupported": len(masses.unsupported)}
    (output / "held_out.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    series = {"loss": history.loss, "attention mass on the true source": history.source_mass}
    draw_loss_curve(history.steps, series, output / "loss_curve.png")


def load_or_train_tokenizer(output: Path, corpus: Corpus, *, vocabulary_size: int) -> Tokenizer:
    """The tokenizer in ``output``; if there is none, it is trained and saved first."""
    if not (output / "tokenizer.json").exists():
        pages = Corpus(corpus.pages[:TOKENIZER_PAGES])
        tokenizer = train_tokenizer(pages.texts(), vocabulary_size=vocabulary_size)
        save_tokenizer(tokenizer, output, max_tokens=MAX_TOKENS)
    return load_tokenizer(output)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = CommandParser(prog="python -m lab.train attributor", description=__doc__)
    parser.add_argument(
        "--pages", type=Path, required=True, help='pages: JSON lines of {"title", "paras"}, plain or .xz'
    )
    parser.add_argument("--output", type=Path, required=True, help="the model directory to write, or to resume in")
    shape = TrainingPlan().shape
    parser.add_argument("--hidden-size", type=int, default=shape.hidden_size)
    parser.add_argument("--intermediate-size", type=int, default=shape.intermediate_size)
    parser.add_argument("--local-layers", type=int, default=shape.local_layers)
    parser.add_argument("--attention-heads", type=int, default=shape.attention_heads)
    parser.add_argument("--window", type=int, default=shape.window, help="tokens that local layers see to each side")
    parser.add_argument("--steps", type=int, default=TrainingPlan().steps)
    parser.add_argument("--seed", type=int, default=TrainingPlan().seed)
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    parser.add_argument("--device", type=device_name, default="auto", help="auto, cpu, cuda, cuda:1")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Run the recipe with the options of the command line."""
    options = parse_arguments(arguments)
    check_drawing_is_installed()
    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    device = choose_device(options.device)
    shape = Shape(
        hidden_size=options.hidden_size,
        intermediate_size=options.intermediate_size,
        local_layers=options.local_layers,
        attention_heads=options.attention_heads,
        window=options.window,
    )
    plan = TrainingPlan(steps=options.steps, seed=options.seed, shape=shape)
    run_recipe(read_pages(options.pages), plan=plan, output=options.output, device=device)


if __name__ == "__main__":
    main()
