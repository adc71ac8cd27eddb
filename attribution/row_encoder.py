"""The encoding half of an attention model: tokenizer, template and length limit, without any weights."""

from __future__ import annotations

from functools import lru_cache

from tokenizers import Tokenizer

from attribution.model_context import model_context
from attribution.model_directory import ModelDirectory, ModelLoadError, load_tokenizer, read_model_directory
from attribution.model_options import ModelOptions
from attribution.prompt_template import PromptTemplate
from attribution.row_encoding import encode_row
from attribution.token_attribution import EncodedRow
from schemas import QARecord, Reason, RowFault


class RowEncoder:
    """Turns records into encoded rows; threads may share it.

    Attributes:
        template: the prompt.
        max_tokens: longest row that is accepted, None where there is no limit.
    """

    def __init__(self, directory: ModelDirectory) -> None:
        """Read tokenizer and template, no weights.

        Only a template that holds special tokens, a chat template, makes them more than plain text in a row; one that
        begins with a special token brings its own BOS.

        Raises:
            ModelLoadError: if the model has no fast tokenizer, or the prompt template's file is none.
        """
        try:
            self.template = _template(directory)
        except (OSError, ValueError) as error:
            raise ModelLoadError(f"model {directory.options.model!r}: {error}") from error
        self._tokenizer = load_tokenizer(directory)
        specials = _special_tokens(self._tokenizer)
        text = self.template.literal_text
        self._tokenizer.encode_special_tokens = not any(token in text for token in specials)
        self._add_special_tokens = not text.startswith(specials)
        self.max_tokens = _max_tokens(directory)

    def encode(self, record: QARecord) -> EncodedRow:
        """The record's tokens and their characters.

        Raises:
            RowFault: TOO_MANY_TOKENS if the row is longer than the model takes; faults of ``encode_row``.
        """
        row = self.encode_any_length(record)
        if self.max_tokens is not None and len(row.token_ids) > self.max_tokens:
            raise RowFault(
                Reason.TOO_MANY_TOKENS,
                f"a row should have at most {self.max_tokens} tokens, has {len(row.token_ids)}; "
                "log fewer passages, or choose a model with a longer context",
            )
        return row

    def encode_any_length(self, record: QARecord) -> EncodedRow:
        """As ``encode``, without the length limit.

        Raises:
            RowFault: faults of ``encode_row``.
        """
        return encode_row(
            question=record.question,
            passages=record.passages,
            answer=record.answer,
            tokenizer=self._tokenizer,
            template=self.template,
            add_special_tokens=self._add_special_tokens,
        )


@lru_cache(maxsize=1)
def load_row_encoder(options: ModelOptions) -> RowEncoder:
    """The encoder of a model; the last one stays loaded for the next call with the same options.

    Raises:
        ModelLoadError: as ``RowEncoder``.
    """
    return RowEncoder(read_model_directory(options))


def _template(directory: ModelDirectory) -> PromptTemplate:
    if directory.options.prompt_template is not None:
        return PromptTemplate.from_file(directory.options.prompt_template)
    return directory.defaults.prompt_template or PromptTemplate()


def _special_tokens(tokenizer: Tokenizer) -> tuple[str, ...]:
    return tuple(token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special)


def _max_tokens(directory: ModelDirectory) -> int | None:
    context = model_context(directory.config)
    return min((limit for limit in (directory.options.max_tokens, context) if limit is not None), default=None)
