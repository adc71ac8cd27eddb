"""Passages and questions within prompts, as usual templates set them."""

from __future__ import annotations

import pytest

from attribeam.logs.traces.messages import Asked
from attribeam.logs.traces.prompt_parts import prompt_parts

Q, ONE, TWO = "Who lit it?", "The lamp was lit in 1874.", "Ada kept it, and: nobody else."
PROMPTS = {
    "LangChain's hub": f"Use the following pieces of context.\nQuestion: {Q} \nContext: {ONE}\n\n{TWO} \nAnswer:",
    "LangChain's stuff chain": f"Use the following pieces of context. If you don't know, say so.\n\n{ONE}\n\n{TWO}\n\n"
    f"Question: {Q}\nHelpful Answer:",
    "LlamaIndex": "Context information is below.\n---------------------\n"
    f"{ONE}\n\n{TWO}\n---------------------\nGiven this, answer the query.\nQuery: {Q}\nAnswer: ",
    "tags": f"<documents>\n<document index='1'>\n<source>a.txt</source>\n<document_content>\n{ONE}\n"
    f"</document_content>\n</document>\n<document index='2'><document_content>{TWO}</document_content></document>"
    f"\n</documents>\n<question>{Q}</question>",
    "bare tags": f"Answer from <doc id='1'>{ONE}</doc> and <doc id='2'>{TWO}</doc>.\nQuestion: {Q}",
    "question behind the tag": f"<context>\n{ONE}\n\n{TWO}\n</context>\n\n{Q}",
    "headings of Markdown": f"### Context:\n[1] {ONE}\n[2] {TWO}\n\n### Question:\n{Q}\n\n### Answer:",
    "bold headings and rules": f"**Context**: {ONE}\n---\n{TWO}\n\n**Question**: {Q}",
    "labels": f"Answer from the sources.\n\nSources:\nSource 1: {ONE}\nSource 2: {TWO}\n\nUser question: {Q}",
    "labels on lines of their own": f"Documents:\nDocument 1\n{ONE}\nDocument 2\n{TWO}\n\nQuestion: {Q}",
}


@pytest.mark.parametrize("name", PROMPTS)
def test_passages_and_question_are_found(name: str) -> None:
    found = prompt_parts(PROMPTS[name])
    assert found is not None
    assert [one.text for one in found.passages] == [ONE, TWO]
    assert found.asked(Asked(PROMPTS[name])) == Asked(Q)
    assert found.asked(Asked("Who?")) == Asked("Who?")


def test_metadata_that_llamaindex_sets_above_a_text_stays_with_it() -> None:
    rule = "-" * 21
    found = prompt_parts(
        f"Context information is below.\n{rule}\npage_label: 1\nfile_name: a.md\n\n{ONE}\n\n{TWO}\n{rule}"
    )
    assert found is not None
    assert [one.text for one in found.passages] == [f"page_label: 1\nfile_name: a.md\n{ONE}", TWO]
    assert found.question is None


@pytest.mark.parametrize(
    "prompt",
    ["", Q, f"Context matters here. {Q}", "<context></context>", f"Question: {Q}", "Context:\n\nQuestion: Who?"],
)
def test_prompt_without_marked_passages_has_no_parts(prompt: str) -> None:
    assert prompt_parts(prompt) is None
