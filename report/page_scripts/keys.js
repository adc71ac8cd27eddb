// Keyboard shortcuts. They do nothing while a field has the focus or a dialog is open.

import {announce, byId} from "./elements.js";
import {pin, pinNeighbour} from "./highlights.js";
import {toggleMark} from "./mark_bar.js";
import {selection} from "./selection.js";
import {go, inAnswers} from "./views.js";
import {address, neighbour} from "./worklist.js";

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  "]": () => pinNeighbour(1),
  "[": () => pinNeighbour(-1),
  r: () => inAnswers() && toggleMark("right"),
  w: () => inAnswers() && toggleMark("wrong"),
  u: () => inAnswers() && toggleMark("unsure"),
  n: () => inAnswers() && byId("note")?.focus(),
  o: () => go(inAnswers() ? "#overview" : selection.item ? address(selection.item) : "#answers"),
  "/": () => {
    if (!inAnswers()) go("#answers");
    byId("filter-text").focus();
  },
  "?": () => byId("help").showModal(),
  Escape: () => selection.item && pin(null),
};

export function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const field = event.target.closest?.("input, textarea, select");
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

/** Open the next or previous item of the worklist. */
function step(by) {
  const item = neighbour(inAnswers() ? by : 0);
  if (!item) return announce(by > 0 ? "This is the last answer" : "This is the first answer");
  return go(address(item));
}
