// The bar under an answer: its mark and note, or those of the selected span.

import {supportName} from "./claims.js";
import {announce, byId, el} from "./elements.js";
import {answerFlagged, claimLacks, MARKS, markOf, reviewer, setMark, tellReviewer} from "./marks.js";
import {selection, spanText} from "./page_data.js";
import {shortened} from "./texts.js";
import {refreshRow} from "./worklist.js";

const MARK_KEYS = {right: "r", wrong: "w", unsure: "u"};
const SUPPORTED = "it is supported";
const LACKING = "it lacks support";
const ALL_SUPPORTED = "all is supported";
const HAS_LACKING = "something lacks support";

export function markBar() {
  const buttons = MARKS.map((mark) =>
    el("button", {
      type: "button",
      "data-mark": mark,
      "aria-pressed": "false",
      "aria-keyshortcuts": MARK_KEYS[mark],
      onclick: () => toggleMark(mark),
    }),
  );
  const note = el("input", {
    type: "text",
    id: "note",
    placeholder: "Note",
    "aria-label": "Note",
    "aria-keyshortcuts": "n",
    oninput: (event) => noted(event.target.value),
  });
  const name = el("input", {
    type: "text",
    id: "ask-reviewer",
    placeholder: "Your name, asked once",
    "aria-label": "Your name, saved with your marks",
    autocomplete: "name",
    onchange: (event) => {
      tellReviewer(event.target.value);
      showMarkBar();
    },
  });
  return el(
    "div",
    {class: "mark-bar", role: "group", "aria-label": "Mark"},
    el("p", {class: "of"}, el("bdi", {id: "mark-of"}), el("span", {id: "mark-verdict"})),
    buttons,
    note,
    name,
  );
}

export function showMarkBar() {
  const {mark, note} = markOf(selection.item, selection.span);
  const {what, verdict, names, meanings} = question(selection.item, selection.span);
  byId("mark-of").textContent = what;
  byId("mark-verdict").textContent = verdict;
  byId("note").value = note;
  byId("ask-reviewer").hidden = reviewer() !== "";
  for (const button of byId("detail").querySelectorAll("[data-mark]")) {
    const own = button.dataset.mark;
    button.setAttribute("aria-pressed", String(own === mark));
    const meaning = meanings[own] ? el("small", {}, meanings[own]) : "";
    button.replaceChildren(names[own], meaning, el("kbd", {"aria-hidden": "true"}, MARK_KEYS[own]));
  }
}

/** What is marked, what the verdict on it is, and what each mark would say. */
function question(item, spanIndex) {
  const ofAnswer = spanIndex === null;
  const flagged = ofAnswer ? answerFlagged(item) : claimLacks(item, spanIndex);
  const [fine, bad] = ofAnswer ? [ALL_SUPPORTED, HAS_LACKING] : [SUPPORTED, LACKING];
  const names = {right: "Right", wrong: "Wrong", unsure: "Unsure"};
  const what = ofAnswer
    ? item.kind === "deadLetter"
      ? "This row"
      : "This answer"
    : `“${shortened(spanText(item, item.spans[spanIndex]), 40)}”`;
  if (flagged === undefined)
    return {
      what,
      verdict: "has no verdict; mark what the page says of it",
      names,
      meanings: {},
    };
  if (flagged === null)
    return {
      what,
      verdict: "has no verdict yet. Is it supported?",
      names: {right: "Supported", wrong: "Unsupported", unsure: "Unsure"},
      meanings: {right: fine, wrong: bad},
    };
  return {
    what,
    verdict: `${verdictWords(item, spanIndex, flagged)}. Is that right?`,
    names,
    meanings: flagged ? {right: bad, wrong: fine} : {right: fine, wrong: bad},
  };
}

function verdictWords(item, spanIndex, flagged) {
  if (spanIndex !== null) return `is called ${supportName(item.spans[spanIndex].support)}`;
  return flagged ? "is said to have an unsupported claim" : "is said to have no unsupported claim";
}

export function toggleMark(mark) {
  if (!selection.item) return;
  const next = markOf(selection.item, selection.span).mark === mark ? "" : mark;
  setMark(selection.item, selection.span, {mark: next});
  showMarkBar();
  refreshRow(selection.item);
  announce(next ? `Marked as ${next}` : "Mark taken away");
  if (selection.span === null) return;
  refreshSpanBadge();
  if (next) byId("detail").dispatchEvent(new Event("marked"));
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
