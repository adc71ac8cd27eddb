"""The page of a suite's tables."""

from __future__ import annotations

from evaluation.suite.accuracy_tables import accuracy_sections
from evaluation.suite.figures import FIGURES
from evaluation.suite.markdown import markdown_table, section
from evaluation.suite.other_tables import other_sections
from evaluation.suite.suite_results import SuiteResults

_PROVENANCE = ("model", "model_type", "layer_choice", "hidden_layer", "top_k", "isolation_tau", "own_token_weight",
               "sentence_weight", "evidence_window", "passage_score", "parser", "language_model", "device", "dtype",
               "torch_version", "transformers_version")  # fmt: skip


def suite_page(results: SuiteResults) -> str:
    """Markdown with every table that has figures, the pictures, and what is left out; ends with a line end."""
    parts = [
        f"# The paper's suite: {results.model}",
        _settings(results),
        *accuracy_sections(results),
        *other_sections(results),
        _pictures(results),
        _left_out(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _settings(results: SuiteResults) -> str:
    known = [
        f"{name.replace('_', ' ')} {results.provenance[name]}" for name in _PROVENANCE if name in results.provenance
    ]
    limit = [] if results.limit is None else [f"only the first {results.limit} answers of each data set"]
    drawn = f"{results.bootstrap_draws} resamples of answers, seed {results.bootstrap_seed}"
    return "; ".join([*known, *limit, drawn]) + "."


def _pictures(results: SuiteResults) -> str:
    shown = [(file, figure.caption) for file, figure in FIGURES.items() if figure.has_data(results)]
    return section("Figures", *(f"![{caption}]({file})" for file, caption in shown)) if shown else ""


def _left_out(results: SuiteResults) -> str:
    rows = [[one.what, one.reason, f"`{one.remedy}`"] for one in results.left_out]
    lacking = (
        "Not found below DATA: " + ", ".join(f"`{one}`" for one in results.missing) + "." if results.missing else ""
    )
    command = (
        "Nothing is filled in from elsewhere. The same command with what is named goes on where this run ended; "
        "finished cells are kept:\n\n"
        f"```\nattribeam evaluate --suite paper --model {results.model} --data DATA --output OUTPUT\n```"
    )
    return section("Left out", markdown_table(("what", "why", "fill it with"), rows), lacking, command)
