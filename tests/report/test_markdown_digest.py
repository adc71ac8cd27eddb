"""The digest in Markdown: what stands in it, and that texts of a log stay text."""

import html
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.report.made_audit import PASSAGES, made_audit, supported_span, told_spans, unsupported_span

from attribeam.report.messages import one_line
from attribeam.report.report_command import digest_lines, escape_markdown
from attribeam.schemas import AnswerKind, ClaimKind, Passage, Support

HOSTILE = "<script>alert(1)</script> | [x](http://y) `a` **b** ![i](j) &amp; \x1b[2J"


def _rendered(markdown):
    return MarkdownIt("commonmark").enable("table").render(markdown)


_ALONE = replace(unsupported_span(), span_index=0, claim_index=0)


def test_figures_come_first_and_then_answers_by_risk(tmp_path):
    made = made_audit(tmp_path, spans={0: (supported_span(),), 2: (_ALONE,)})
    lines = list(digest_lines(made.opened, answers=2))
    text = "\n".join(lines)
    assert "| rows | 4 |  |" in lines
    assert "| dead letters: `empty_answer` | 1 | 25.0% |" in lines
    assert "## The 2 riskiest of 3 audited answers" in text
    headings = [line.split()[2] for line in lines if line.startswith("### ")]
    assert headings == ["ferry-2", "ferry-1"]
    assert "> When does the ferry leave?  " in lines
    assert "| unsupported |  | 6% | 40 cars | 40 | none |" in lines
    assert "Supported claims besides: 1." in text


def test_a_digest_lists_claims_and_says_what_refuses_or_is_not_judged(tmp_path):
    claim = replace(unsupported_span(), span_index=0, claim_index=0, support_score=0.25, answer_risk=0.75)
    part = replace(claim, span_index=1, text="40")
    no_claim = replace(supported_span(), claim_index=None, claim_kind=ClaimKind.REFUSAL, support=Support.NO_CLAIM)
    unread = replace(no_claim, claim_kind=ClaimKind.LANGUAGE, support=Support.NOT_JUDGED)
    spans = {
        0: (replace(unread, answer_kind=AnswerKind.NOT_JUDGED),),
        1: (replace(no_claim, answer_kind=AnswerKind.REFUSAL, answer_risk=0.125),),
        2: (claim, part),
    }
    lines = list(digest_lines(made_audit(tmp_path, spans=spans).opened, answers=9))
    assert [line for line in lines if line.startswith("### ")] == [
        "### 1. ferry-2 (risk 0.75)\n",
        "### 2. ferry-1 (risk 0.12, a refusal)\n",
        "### 3. ferry-0 (not judged: language)\n",
    ]
    assert [line for line in lines if line.startswith("| unsupp")] == [
        "| unsupported | 1 | 100.0% |",
        "| unsupported | 0.25 | 6% | 40 cars | 40 | none |",
    ]
    assert "| spans with support `not_judged` | 1 |  |" in lines
    assert "| answers of the kind `refusal` | 1 | 33.3% |" in lines


def test_a_digest_says_why_a_claim_is_unsupported(tmp_path):
    audit = made_audit(tmp_path, record_ids=["ferry"], spans={0: told_spans()}).opened
    (row,) = (line for line in digest_lines(audit, answers=1) if line.startswith("| unsupported: "))
    assert row.split(" | ")[0] == "| unsupported: other value — evidence says: twelve"


def test_a_digest_without_its_log_has_no_whole_texts(tmp_path):
    made = made_audit(tmp_path)
    made.log.unlink()
    text = "\n".join(digest_lines(made.opened, answers=5))
    assert "40 cars" in text
    assert "Question" not in text


def test_hostile_texts_in_every_field_stay_text(tmp_path):
    made = made_audit(
        tmp_path,
        record_ids=["x"],
        spans={0: (replace(_ALONE, text=HOSTILE, unmatched_values=(HOSTILE,)),)},
        change=lambda record: replace(
            record,
            record_id=HOSTILE,
            question=HOSTILE,
            answer=f"{record.answer}\n{HOSTILE}",
            generator=HOSTILE,
            passages=(Passage(HOSTILE, HOSTILE, HOSTILE), PASSAGES[1]),
        ),
    )
    page = _rendered("\n".join(digest_lines(made.opened, answers=5)))
    assert "\x1b" not in page
    for tag in ("<script", "<a ", "<img", "<em>"):
        assert tag not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt; | [x](http://y) `a` **b** ![i](j) &amp;amp;") == 6


@given(st.text(st.sampled_from("ab1.)#-+=>*_`[]()<>|~$&!\\@:/ \n\u202e\x1b"), max_size=30).map(lambda text: f"{text}z"))
def test_markdown_shows_escaped_text_as_it_is(text):
    line = one_line(text).strip()
    assert _rendered(escape_markdown(line)) == f"<p>{html.escape(line)}</p>\n"
