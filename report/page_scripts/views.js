// Which view is open. The address holds it, so the browser's back and forward buttons work.

import {announce, byId, el} from "./elements.js";
import {choose, chooseColumn, NO_GENERATOR, resetFilters} from "./filters.js";
import {holdPassages, showScores} from "./highlights.js";
import {showMarkBar} from "./mark_bar.js";
import {itemOfId, items, selection} from "./page_data.js";
import {redraw} from "./plot_cards.js";
import {answerView, deadLetterView} from "./record_view.js";
import {address, listed, showCurrent, updateWorklist} from "./worklist.js";

export function inAnswers() {
  return !byId("view-answers").hidden;
}

export function go(place) {
  if (location.hash !== place) location.hash = place;
  showView(); // at once, because the next key may come before the browser's hashchange event
}

export function showView() {
  const place = placeOf(location.hash);
  const {answers} = place;
  const stayed = answers === inAnswers();
  byId("view-overview").hidden = answers;
  byId("view-answers").hidden = !answers;
  for (const link of document.querySelectorAll("[data-view]"))
    link.toggleAttribute("aria-current", (link.dataset.view === "answers") === answers);
  document.querySelector("[data-view][aria-current]")?.setAttribute("aria-current", "page");
  if (!stayed) scrollTo(0, 0);
  if (answers) showAnswers(place);
  else redraw();
}

/** What an address stands for: ``#overview``, ``#answers``, ``#answers/3`` by place, ``#answer=ID`` by record id. */
function placeOf(hash) {
  const id = /^#answer=(.*)$/s.exec(hash)?.[1];
  if (id !== undefined) return {answers: true, id: decoded(id), item: itemOfId(decoded(id)) ?? null};
  const [, view = "", number = ""] = /^#(\w*)\/?(\d*)$/.exec(hash) ?? [];
  return {answers: view === "answers", item: items[Number(number) - 1] ?? null};
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function showAnswers({id, item}) {
  if (id !== undefined && item === null) return showMissing(id);
  if (!item && !listed.length) return showHint("Nothing passes these filters.");
  const wanted = item ?? (wide() ? (listed.includes(selection.item) ? selection.item : listed[0]) : null);
  byId("view-answers").classList.toggle("open", item !== null);
  if (wanted) openItem(wanted);
  else if (!selection.item) showHint("Choose an answer.");
  else showCurrent();
}

function showMissing(id) {
  byId("view-answers").classList.add("open");
  showHint(
    el("a", {class: "back", href: "#answers"}, "← Back to the list"),
    `No answer with the id ${id} is on this page. It may be in the audit all the same: `,
    el("code", {}, `attribeam show ${id} --audit DIR`),
    " prints any.",
  );
}

/** A sentence in place of an answer: none stays in view that the filters do not let pass. */
function showHint(...text) {
  selection.item = null;
  selection.span = null;
  byId("detail").replaceChildren(el("p", {class: "hint"}, ...text));
  showCurrent();
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
    if (item.kind === "answer") showScores(null);
    announce(`${listed.indexOf(item) + 1} of ${listed.length}: ${item.question ?? item.id ?? "row"}`);
    scrollTo(0, 0);
  }
  showMarkBar();
  showCurrent();
  holdPassages();
}

/** Show the worklist with the filters that are chosen; an open answer that they hide gives way to the first one. */
export function filter() {
  const opened = selection.item;
  updateWorklist();
  if (!inAnswers() || (opened !== null && listed.includes(opened))) return;
  if (listed.length && wide()) {
    history.replaceState(null, "", address(listed[0]));
    showView();
  } else if (!listed.length) showHint("Nothing passes these filters.");
  else showView();
}

/** Show everything anew, once marks have changed behind the open answer. */
export function refresh() {
  updateWorklist();
  if (!inAnswers()) return;
  selection.item = null;
  showView();
}

/** Show the worklist with these filters only. */
export function showFiltered({columns = {}, ...filters}) {
  resetFilters();
  for (const [name, value] of Object.entries(filters))
    choose(byId(`filter-${name}`), value === "" && name === "generator" ? NO_GENERATOR : value);
  for (const [name, value] of Object.entries(columns)) chooseColumn(name, value);
  updateWorklist();
  go("#answers");
}
