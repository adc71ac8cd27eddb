"""An audit of a log that was imported from a trace store: three answers, of which the last has no ids."""

from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.report.made_audit import made_audit, no_claim, told_spans

from attribeam.logs.traces.trace_log import log_schema
from attribeam.schemas import AnswerKind, ClaimKind

TRACES = ("5b8efff798038103d269b633813fc60c", "5b8efff798038103d269b633813fc60d", None)
SPANS = ("eee19b7ec3c1b174", "eee19b7ec3c1b175", None)
RETRIEVER = "eee19b7ec3c1b176"


def sendable_audit(folder):
    """An answer of two claims, of which one is unsupported; a refusal; and an answer without ids."""
    quoted, other_value = told_spans()
    refusal = no_claim(ClaimKind.REFUSAL, answer_kind=AnswerKind.REFUSAL, passage_scores=(0.0, 0.0), evidence=())
    spans = {0: tuple(replace(one, answer_risk=0.875) for one in (quoted, other_value)), 1: (refusal,)}
    fields = [one for one in log_schema(of_traces=True) if one.name in ("trace_id", "span_id", "retrievals")]
    return made_audit(folder, spans=spans, change=_with_ids, extra_fields=fields).root


def _with_ids(record):
    row = record.source.source_row
    places = [{"span_id": RETRIEVER, "position": 1 - index, "passage_index": index} for index in (0, 1)]
    ids = (("trace_id", TRACES[row]), ("span_id", SPANS[row]), ("retrievals", places if row == 0 else []))
    return replace(record, extra_columns=ids)


@contextmanager
def loopback_server(answer):
    """A server's address; ``answer`` gets path, body and the header Authorization, and gives status and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, content = answer(self.path, body, self.headers.get("Authorization", ""))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
