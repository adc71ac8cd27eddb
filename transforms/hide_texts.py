"""The last step before a table is written: masks or empties the texts of every column, whoever made the column.

Only columns that are named here are let through, so a new column is hidden unless somebody decides otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from attribeam.logs.privacy.masked_values import ValueChange, masking
from attribeam.logs.privacy.redactor import Redactor
from attribeam.logs.privacy.settings import PrivacySettings
from attribeam.schemas import dead_letter_schema, evidence_schema

OUR_WORDS = frozenset(
    {"source_file", "span_kind", "support", "claim_kind", "answer_kind", "how", "stage", "reason", "column"}
)
"""Fields with words of ours, or with paths and names of columns, which the user gave: never changed."""

NAMES = frozenset({"record_id", "generator", "top_passage_id", "passage_id", "message"})
"""Fields that name something and hold no text of question, passages or answer: masked, and kept by ``--no-texts``."""


@dataclass(frozen=True, slots=True)
class HideTexts:
    """Tables of evidence or dead letters in, the same tables as they may be written out."""

    privacy: PrivacySettings

    def __call__(self, table: pa.Table) -> pa.Table:
        """The table with the same schema; extra columns are masked and never emptied, since the user named them."""
        own = _own_names(table.schema)
        redactor = Redactor(self.privacy)
        of_ours, of_theirs = ValueChange(self._own_text), masking(redactor)
        arrays = [
            pa.nulls(table.num_rows, field.type)
            if field.name in own and self._is_left_out(field)
            else (of_ours if field.name in own else of_theirs).array(
                field.name, table.column(field.name).combine_chunks()
            )
            for field in table.schema
        ]
        return pa.Table.from_arrays(arrays, schema=table.schema)

    def _is_left_out(self, field: pa.Field) -> bool:
        """Whether a column of texts is null: where it may be, since an empty text would say that there is none."""
        return field.nullable and pa.types.is_string(field.type) and self._is_empty(field.name)

    def _is_empty(self, name: str) -> bool:
        return self.privacy.no_texts and name not in OUR_WORDS | NAMES

    def _own_text(self, name: str, text: str) -> str:
        if name in OUR_WORDS:
            return text
        if self._is_empty(name):
            return ""
        return Redactor(self.privacy).mask(text)


def given_names(schema: pa.Schema) -> frozenset[str]:
    """The columns of a table that nothing is masked in: those of our own words, and of what the user gave."""
    return _own_names(schema) & OUR_WORDS


def _own_names(schema: pa.Schema) -> frozenset[str]:
    """The fields that this program declares, without those of ``--extra-columns``, whatever they are called."""
    declared = evidence_schema() if "span_index" in schema.names else dead_letter_schema()
    return frozenset(declared.names)
