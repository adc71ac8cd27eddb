"""Every fault that a row of a log can have: what is changed, and the stage, reason and column of its dead letter."""

from tests.logs.log_files import BROKEN_TEXT

from attribeam.logs.rows import MOST_ITEMS
from attribeam.schemas import Reason, Stage

LONGEST = 200
BLANK = [{"text": ""}, {"text": " \n"}]
FAULTS = {
    "null id": ({"record_id": None}, Stage.VALIDATE, Reason.MISSING_VALUE, "record_id"),
    "empty id": ({"record_id": ""}, Stage.VALIDATE, Reason.MISSING_VALUE, "record_id"),
    "broken id": ({"record_id": BROKEN_TEXT}, Stage.READ, Reason.INVALID_UTF8, "record_id"),
    "null question": ({"question": None}, Stage.VALIDATE, Reason.MISSING_VALUE, "question"),
    "broken question": ({"question": BROKEN_TEXT}, Stage.READ, Reason.INVALID_UTF8, "question"),
    "null answer": ({"answer": None}, Stage.VALIDATE, Reason.EMPTY_ANSWER, "answer"),
    "blank answer": ({"answer": " \n\u3000"}, Stage.VALIDATE, Reason.EMPTY_ANSWER, "answer"),
    "broken answer": ({"answer": BROKEN_TEXT}, Stage.READ, Reason.INVALID_UTF8, "answer"),
    "long answer": ({"answer": "é" * (LONGEST + 1)}, Stage.VALIDATE, Reason.TEXT_TOO_LONG, "answer"),
    "null passages": ({"passages": None}, Stage.VALIDATE, Reason.NO_PASSAGES, "passages"),
    "blank passages": ({"passages": BLANK}, Stage.VALIDATE, Reason.NO_PASSAGES, "passages"),
    "no passages": ({"passages": []}, Stage.VALIDATE, Reason.NO_PASSAGES, "passages"),
    "null passage": ({"passages": [None]}, Stage.VALIDATE, Reason.NO_PASSAGES, "passages"),
    "null passage text": ({"passages": [{"text": None}]}, Stage.VALIDATE, Reason.NO_PASSAGES, "passages"),
    "broken passage": ({"passages": [{"text": BROKEN_TEXT}]}, Stage.READ, Reason.INVALID_UTF8, "passages"),
    "broken title": ({"passages": [{"text": "a", "title": BROKEN_TEXT}]}, Stage.READ, Reason.INVALID_UTF8, "passages"),
    "long passage": ({"passages": [{"text": "a" * 201}]}, Stage.VALIDATE, Reason.TEXT_TOO_LONG, "passages"),
    "long passages": ({"passages": [{"text": "a" * 90}] * 2}, Stage.VALIDATE, Reason.TEXT_TOO_LONG, "passages"),
    "too many passages": ({"passages": [None] * (MOST_ITEMS + 1)}, Stage.VALIDATE, Reason.TEXT_TOO_LONG, "passages"),
    "too many spans": ({"target_spans": [None] * (MOST_ITEMS + 1)}, Stage.VALIDATE, Reason.TEXT_TOO_LONG,
        "target_spans"),
    "span beyond the answer": ({"answer": "🙂🙂", "target_spans": [{"char_start": 0, "char_end": 3}]}, Stage.VALIDATE,
        Reason.SPAN_OUT_OF_RANGE, "target_spans"),
    "empty span": ({"target_spans": [{"char_start": 2, "char_end": 2}]}, Stage.VALIDATE, Reason.SPAN_OUT_OF_RANGE,
        "target_spans"),
    "reversed span": ({"target_spans": [{"char_start": 3, "char_end": 1}]}, Stage.VALIDATE, Reason.SPAN_OUT_OF_RANGE,
        "target_spans"),
    "negative span": ({"target_spans": [{"char_start": -1, "char_end": 1}]}, Stage.VALIDATE, Reason.SPAN_OUT_OF_RANGE,
        "target_spans"),
    "null span": ({"target_spans": [None]}, Stage.VALIDATE, Reason.MISSING_VALUE, "target_spans"),
    "broken generator": ({"generator": BROKEN_TEXT}, Stage.READ, Reason.INVALID_UTF8, "generator"),
}  # fmt: skip
