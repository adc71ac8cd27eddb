"""One row that fits the small tokenizer."""

from attribeam.schemas import Passage, QARecord, RowSource

RECORD = QARecord(
    "r",
    "Who built the lighthouse?",
    (Passage(text="The keeper lived in the tower."), Passage(text="Ada Thorne built it in 1874.")),
    "Ada Thorne built it.",
    RowSource("log.parquet", 0),
)
