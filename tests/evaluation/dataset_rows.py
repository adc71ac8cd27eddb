"""Rows in the formats of the data sets, files of them, and logs with labels, written for these tests."""

import json
import lzma
from collections.abc import Mapping
from functools import cache
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from attribeam.attribution.answers.answer_parser import AnswerParser
from attribeam.evaluation.check_command import LABELLED_ROWS
from attribeam.pipeline.command_line import main
from attribeam.schemas.qa_record import labelled_log_schema

JsonRow = Mapping[str, object]


def quotesum_row(summary, *, row_id="q_0", **fields):
    """A row with two sources unless ``fields`` override them."""
    row = {"qid": "q", "unique_id": row_id, "question": "Who keeps the lamp?", "summary": summary}
    row |= {f"{name}{number}": "" for name in ("title", "source") for number in range(1, 9)}
    row |= {"title1": "Brigg Point", "source1": "Its lamp is kept by Ada Thorne since 1874."}
    row |= {"title2": "Skell Rock", "source2": "A bell buoy lies off the rock, tended by Jon Reed."}
    return row | fields


def veri_gran_row(summary, passages):
    return {"question": "what is on the rock", "summary": summary, "chunk": summary, "passages": list(passages)}


def lfqa_row(response, documents, highlights):
    """``highlights`` are (sentence of the response, document, text of the document)."""
    return {
        "unique_id": "a",
        "query": "What guards the coast?",
        "response": response,
        "documents": [{"documentFile": f"d{n}", "rawDocumentText": text} for n, text in enumerate(documents)],
        "set_of_highlights_in_context": [
            {
                "scuSentence": sentence,
                "scuSentCharIdx": response.index(sentence),
                "documentFile": f"d{document}",
                "docSpanOffsets": [[(start := documents[document].index(text)), start + len(text)]],
            }
            for sentence, document, text in highlights
        ],
    }


def write_rows(path, rows):
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_bytes(lzma.compress(text.encode()) if path.suffix == ".xz" else text.encode())
    return path


DOCUMENTS = (
    {"id": "17", "title": "Brigg Point", "text": "Ada Thorne lit the lamp in 1874."},
    {"id": 18, "title": "Skell Rock", "text": "A bell buoy lies off the rock."},
    {"title": None, "text": "The harbour freezes in winter."},
)


def alce_row(output, documents=DOCUMENTS):
    return {"question": "What guards the coast?", "answer": "A lamp.", "docs": list(documents), "output": output}


def write_alce(path, rows, *, in_data=True):
    path.write_text(json.dumps({"args": {}, "data": list(rows)} if in_data else list(rows)), encoding="utf-8")
    return path


def ragtruth_source(source_id, source_info, *, task="QA"):
    return {"source_id": source_id, "task_type": task, "source": "own", "source_info": source_info, "prompt": "..."}


def ragtruth_response(row_id, source_id, response, marked=None, *, split="test"):
    """``marked`` gives texts of the response and their label types."""
    labels = [
        {"start": response.index(text), "end": response.index(text) + len(text), "text": text, "label_type": kind}
        for text, kind in (marked or {}).items()
    ]
    fields = {"id": row_id, "source_id": source_id, "model": "tiny", "split": split, "quality": "good"}
    return {**fields, "labels": labels, "response": response}


def write_ragtruth(directory, sources, responses):
    directory.mkdir(parents=True, exist_ok=True)
    write_rows(directory / "source_info.jsonl", sources)
    write_rows(directory / "response.jsonl", responses)
    return directory


def mtrag_row(answer, *grades, model="tiny", **fields):
    """A row of one conversation of three turns and one passage unless ``fields`` override them."""
    turns = [("user", "What guards the coast?"), ("agent", "A lamp."), ("user", "Who lit it?")]
    row = {"id": f"c|{model}", "model": model, "answer": answer, "faithfulness": list(grades)}
    row["conversation"] = [{"speaker": speaker, "text": text} for speaker, text in turns]
    row["passages"] = [{"passage_id": "p", "title": "Brigg Point", "text": "Ada Thorne lit the lamp in 1874."}]
    return row | fields


def summedits_row(summary, *edits, row_id="a", **fields):
    """A summary of one document; consistent without edits."""
    document = "Ada Thorne lit the lamp at Brigg Point in 1874."
    row = {"id": row_id, "doc": document, "summary": summary, "label": int(not edits), "edit_types": list(edits)}
    return row | fields


def bump_row(number, edited, kind="Intrinsic Entity Error", **fields):
    """One edit of the same reference summary of the same article."""
    article, reference = "Ada Thorne lit the lamp in 1874. Jon Reed tends the bell.", "Ada Thorne lit the lamp."
    row = {"id": number, "article": article, "reference_summary": reference, "edited_summary": edited}
    return row | {"error_type": kind} | fields


def clapnq_row(*answers, **fields):
    """``answers`` are pairs of an answer and the sentences that its author chose."""
    sentences = ["Ada Thorne lit the lamp .", "A bell buoy lies off the rock .", "Jon Reed tends it ."]
    passage = {"title": "Brigg Point", "text": " ".join(sentences), "sentences": sentences}
    output = [{"answer": answer, "selected_sentences": list(chosen)} for answer, chosen in answers]
    return {"id": "7", "input": "Who lit the lamp?", "passages": [passage], "output": output} | fields


def write_log_rows(path, rows):
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=labelled_log_schema()), path)
    return path


def evaluate(*arguments):
    return main(["evaluate", *map(str, arguments)])


def write_own_rows(path, count):
    lines = LABELLED_ROWS.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:count]), encoding="utf-8")
    return path


# How an audit names methods of the evaluation
WORDS = "attribeam.evaluation.methods.baselines:SpanWords"
FACT_WORDS = "attribeam.evaluation.methods.baselines:FactWords"
GRADIENTS = "attribeam.evaluation.methods.baselines:ContrastiveGradients"
HIDDEN_AVERAGE = "attribeam.evaluation.methods.unions:HiddenAverage"
HIDDEN_UNION = "attribeam.evaluation.methods.unions:HiddenUnion"


QUOTESUM = [
    quotesum_row("The lamp is kept by [ 1 Ada Thorne ] , the buoy by [ 2 Jon Reed ] .", row_id="q_0"),
    quotesum_row("No mark.", row_id="q_1"),
    quotesum_row("[ 2 A bell buoy ] lies there.", row_id="q_2"),
]
PASSAGES = ["Ada lit the lamp.", "Jon tends the buoy.", "Bells ring."]
VERI_GRAN = [veri_gran_row("[ 1 Ada ] lit it.", PASSAGES), veri_gran_row("It is [ 2 Jon ] who tends it.", PASSAGES)]
LFQA = [
    lfqa_row(
        "A lamp burns. Bells ring.",
        ["The lamp burns at night.", "In fog the bells ring out."],
        [("A lamp burns.", 0, "lamp burns"), ("Bells ring.", 1, "bells ring")],
    )
]
CHINESE = [quotesum_row("灯塔由 [ 1 Ada Thorne ] 看守。", row_id="z_0")]
ALCE = [alce_row("Ada Thorne lit the lamp in 1874 [1]. A bell buoy lies off the rock [2].")]

_LOADED_ONCE = staticmethod(cache(AnswerParser.from_pretrained))


def write_english(root):
    for folder, name, rows in (("quotesum", "dev.jsonl", QUOTESUM), ("veri_gran", "dev.jsonl", VERI_GRAN)):
        (root / folder).mkdir(parents=True)
        write_rows(root / folder / name, rows)
    (root / "lfqa").mkdir()
    write_rows(root / "lfqa" / "dev.jsonl.xz", LFQA)
    return root


def write_all(root):
    """Every data set of the layout except logs."""
    write_english(root)
    for folder in ("alce", "chinese"):
        (root / folder).mkdir()
    write_alce(root / "alce" / "asqa.json", ALCE)
    write_rows(root / "chinese" / "quotesum.jsonl", CHINESE)
    write_ragtruth(
        root / "ragtruth",
        [ragtruth_source("1", {"question": "Who lit it?", "passages": "passage 1:Ada lit the lamp.\n\n"})],
        [
            ragtruth_response("1", "1", "Ada lit the lamp.", {}),
            ragtruth_response("2", "1", "Jon lit it.", {"Jon": "bad"}),
        ],
    )
    return root


def suite(data, output, *options):
    given = ["--suite", "paper", "--data", data, "--output", output, "--bootstrap-draws", 40, "--device", "cpu"]
    with patch.object(AnswerParser, "from_pretrained", _LOADED_ONCE):
        return evaluate(*given, *options)


def results_of(output):
    return json.loads((output / "results.json").read_text())
