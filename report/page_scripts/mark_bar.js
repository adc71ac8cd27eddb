// The bar under an answer: its mark and note, or those of the selected span.

import {announce, byId, el} from "./elements.js";
import {MARKS, markOf, setMark} from "./marks.js";
import {spanText} from "./page_data.js";
import {selection} from "./selection.js";
import {shortened} from "./texts.js";
import {refreshRow} from "./worklist.js";

const MARK_KEYS = {right: "r", wrong: "w", unsure: "u"};
const MEANINGS = {
  right: "The verdict is right",
  wrong: "The verdict is wrong",
  unsure: "I cannot tell whether the verdict is right",
};

export function markBar() {
  const buttons = MARKS.map((mark) =>
    el(
      "button",
      {
        type: "button",
        title: MEANINGS[mark],
        "data-mark": mark,
        "aria-pressed": "false",
        "aria-keyshortcuts": MARK_KEYS[mark],
        onclick: () => toggleMark(mark),
      },
      mark[0].toUpperCase() + mark.slice(1),
      el("kbd", {"aria-hidden": "true"}, MARK_KEYS[mark]),
    ),
  );
  const note = el("input", {
    type: "text",
    id: "note",
    placeholder: "Note",
    "aria-label": "Note",
    "aria-keyshortcuts": "n",
    oninput: (event) => noted(event.target.value),
  });
  return el(
    "div",
    {class: "mark-bar", role: "group", "aria-label": "Mark"},
    el("bdi", {class: "of", id: "mark-of"}),
    buttons,
    note,
  );
}

export function showMarkBar() {
  const {mark, note} = markOf(selection.item, selection.span);
  const what =
    selection.item.kind === "deadLetter"
      ? "This row"
      : selection.span === null
        ? "This answer"
        : `“${shortened(spanText(selection.item, selection.item.spans[selection.span]), 40)}”`;
  byId("mark-of").textContent = what;
  byId("note").value = note;
  for (const button of byId("detail").querySelectorAll("[data-mark]"))
    button.setAttribute("aria-pressed", String(button.dataset.mark === mark));
}

export function toggleMark(mark) {
  if (!selection.item) return;
  const next = markOf(selection.item, selection.span).mark === mark ? "" : mark;
  setMark(selection.item, selection.span, {mark: next});
  showMarkBar();
  refreshRow(selection.item);
  if (selection.span !== null) refreshSpanBadge();
  announce(next ? `Marked as ${next}` : "Mark taken away");
}

function noted(note) {
  setMark(selection.item, selection.span, {note});
  refreshRow(selection.item);
}

function refreshSpanBadge() {
  const meta = byId("detail").querySelector(`[data-span="${selection.span}"] .span-meta`);
  meta.querySelector(".mark-badge")?.remove();
  const {mark} = markOf(selection.item, selection.span);
  if (mark) meta.append(el("span", {class: "mark-badge"}, mark));
}
