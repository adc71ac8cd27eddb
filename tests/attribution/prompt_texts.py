"""Texts that try to be more than text: template syntax, special tokens, marks, scripts and line ends of all kinds."""

from __future__ import annotations

from hypothesis import strategies as st

from attribeam.schemas import Passage

_HOSTILE = (
    "{text}", "{{ question }}", "{% for p in passages %}", "{# no #}", "{", "}}", "%s", "\\n",
    "<s>", "</s>", "<|im_start|>", "<|im_end|>", "[INST]", "<pad>", "<unk>", "\ufdd0", "\ufdd01\ufdd1", "\ufdd03\ufdd1",
    "lamp", " the", "Ada", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "é", "e\u0301", "🦊", "👩🏽‍🚀", "漢字", "שלום",
    "\u202eabc",
)  # fmt: skip
hostile_texts = st.lists(st.sampled_from(_HOSTILE) | st.characters(exclude_categories=["Cs"]), max_size=7).map("".join)
harmless_texts = st.lists(
    st.sampled_from(("lamp", " the", "Ada", " ", "  ", "\n", "1874", "tower.", "é", "🦊", "漢字", "<", "|", ">")),
    max_size=7,
).map("".join)
hostile_passages = st.lists(
    st.builds(Passage, text=hostile_texts, title=st.none() | hostile_texts), min_size=1, max_size=3
)
hostile_answers = hostile_texts.filter(lambda text: bool(text.strip()))
