// Which view is open. The address holds it, so the browser's back and forward buttons work.

import {announce, byId, el} from "./elements.js";
import {choose, NO_GENERATOR, resetFilters} from "./filters.js";
import {showScores} from "./highlights.js";
import {showMarkBar} from "./mark_bar.js";
import {items} from "./page_data.js";
import {redraw} from "./plot_cards.js";
import {answerView, deadLetterView} from "./record_view.js";
import {selection} from "./selection.js";
import {listed, showCurrent, updateWorklist} from "./worklist.js";

export function inAnswers() {
  return !byId("view-answers").hidden;
}

export function go(place) {
  if (location.hash !== place) location.hash = place;
  showView(); // at once, because the next key may come before the browser's hashchange event
}

export function showView() {
  const [, view = "", number = ""] = /^#(\w*)\/?(\d*)$/.exec(location.hash) ?? [];
  const answers = view === "answers";
  byId("view-overview").hidden = answers;
  byId("view-answers").hidden = !answers;
  for (const link of document.querySelectorAll("[data-view]"))
    link.toggleAttribute("aria-current", (link.dataset.view === "answers") === answers);
  document.querySelector("[data-view][aria-current]")?.setAttribute("aria-current", "page");
  if (answers) showAnswers(number);
  else redraw();
}

function showAnswers(place) {
  if (!listed.length) return showNothing();
  const wanted = place ? items[Number(place) - 1] : wide() ? (selection.item ?? listed[0]) : null;
  byId("view-answers").classList.toggle("open", Boolean(place));
  if (wanted) openItem(wanted);
  else if (!selection.item) byId("detail").replaceChildren(el("p", {class: "hint"}, "Choose an answer."));
}

/** No answer stays in view that the filters do not let pass. */
function showNothing() {
  selection.item = null;
  byId("detail").replaceChildren(el("p", {class: "hint"}, "Nothing passes these filters."));
}

function wide() {
  return matchMedia("(min-width: 54.01rem)").matches;
}

/** Show one item beside the list. */
function openItem(item) {
  if (selection.item !== item) {
    selection.item = item;
    selection.span = null;
    byId("detail").replaceChildren(
      ...(item.kind === "answer" ? answerView(item) : deadLetterView(item)).filter(Boolean),
    );
    byId("detail").scrollTop = 0;
    if (item.kind === "answer") showScores(null);
    announce(`${listed.indexOf(item) + 1} of ${listed.length}: ${item.question ?? item.id ?? "row"}`);
  }
  showMarkBar();
  showCurrent();
}

/** Show the worklist with the filters that are chosen. */
export function filter() {
  const wasEmpty = !listed.length;
  updateWorklist();
  if (inAnswers() && (wasEmpty || !listed.length)) showView();
}

/** Show the worklist with these filters only. */
export function showFiltered(filters) {
  resetFilters();
  for (const [name, value] of Object.entries(filters))
    choose(byId(`filter-${name}`), value === "" && name === "generator" ? NO_GENERATOR : value);
  updateWorklist();
  go("#answers");
}
