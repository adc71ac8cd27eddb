"""The encoding half of an attention model: tokenizer, template and length limit, without any weights."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer

from attribeam.attribution.models.loading import as_load_errors, loaded_once
from attribeam.attribution.models.model_directory import (
    LightConfig,
    ModelDirectory,
    load_fast_tokenizer,
    model_context,
    read_light_directory,
    runs_own_code,
)
from attribeam.attribution.models.model_files import TOKENIZER
from attribeam.attribution.options import ModelOptions
from attribeam.attribution.prompts.prompt_template import choose_template
from attribeam.attribution.prompts.token_offsets import EncodedPrompt, PageTokenizer, encode_page
from attribeam.attribution.token_attribution import EncodedRow
from attribeam.schemas import QARecord, Reason, RowFault
from attribeam.schemas.errors import ModelLoadError


class RowEncoder:
    """Turns records into encoded rows; threads may share it.

    ``template_name`` says how the template was chosen, ``max_tokens`` is the longest row or window, None without a
    limit.
    """

    def __init__(self, directory: ModelDirectory) -> None:
        """Read tokenizer and template, no weights; ModelLoadError if one of them cannot be used."""
        options = directory.options
        with as_load_errors(options.model):
            if isinstance(directory.config, LightConfig):
                tokenizer, backend = None, Tokenizer.from_file(str(Path(directory.location) / TOKENIZER))
            else:
                tokenizer = load_fast_tokenizer(directory)
                backend = tokenizer.backend_tokenizer
            try:
                chosen = choose_template(
                    options.prompt_template, default=directory.defaults.prompt_template, tokenizer=tokenizer
                )
            except ValueError as error:
                raise ModelLoadError(f"model {options.model!r}: {error}") from error
            self.template = chosen.template
            self.template_name = chosen.name
            limits = (options.max_tokens, model_context(directory.config))
            self.max_tokens = min((limit for limit in limits if limit is not None), default=None)
            self._tokenizer = PageTokenizer(backend, add_special_tokens=chosen.add_special_tokens)
        text = directory.config.get_text_config()
        self._vocabulary: int | None = None if runs_own_code(directory) else getattr(text, "vocab_size", None)

    def encode(self, record: QARecord) -> EncodedRow:
        """The record's tokens and their characters, with windows if it is longer than the model takes.

        Raises:
            RowFault: TOO_MANY_TOKENS if one passage alone is too long; faults of ``encode_any_length``.
        """
        whole = self._encode(record, range(len(record.passages)))
        if self.max_tokens is None or len(whole.row.token_ids) <= self.max_tokens:
            return whole.row
        from attribeam.attribution.prompts.token_offsets import cut_into_windows

        return cut_into_windows(
            whole,
            encode=lambda passages: self._encode(record, passages),
            passage_count=len(record.passages),
            max_tokens=self.max_tokens,
        )

    def encode_whole(self, record: QARecord) -> EncodedRow:
        """As ``encode``, but TOO_MANY_TOKENS instead of windows, for methods that need the whole row at once."""
        row = self.encode_any_length(record)
        if self.max_tokens is not None and len(row.token_ids) > self.max_tokens:
            raise RowFault(
                Reason.TOO_MANY_TOKENS,
                f"a row should have at most {self.max_tokens} tokens here, has {len(row.token_ids)}; "
                "log fewer passages, or choose a model with a longer context",
            )
        return row

    def encode_any_length(self, record: QARecord) -> EncodedRow:
        """As ``encode``, in one piece regardless of its length; TEMPLATE_FAILED by a template of the user's."""
        return self._encode(record, range(len(record.passages))).row

    def _encode(self, record: QARecord, passages: range) -> EncodedPrompt:
        prompt = self.template.render(
            question=record.question,
            passages=record.passages[passages.start : passages.stop],
            first_index=passages.start,
        )
        found = EncodedPrompt(prompt, *encode_page(prompt, record.answer, self._tokenizer))
        highest = int(found.row.token_ids.max())
        if self._vocabulary is not None and highest >= self._vocabulary:
            raise RowFault(
                Reason.INVALID_VALUE,
                f"tokens should have numbers below {self._vocabulary}, the vocabulary of the model's config.json, one "
                f"has {highest}; take tokenizer.json and config.json from one model",
            )
        return found


@loaded_once
def load_row_encoder(options: ModelOptions) -> RowEncoder:
    """The encoder of a model; the last one stays loaded for the next call. Raises as ``RowEncoder``."""
    return RowEncoder(read_light_directory(options))
