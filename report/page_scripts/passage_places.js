// Where passages stay while the page scrolls: beside the answer, in a window that is wide enough for both.
//
// The page has one scrollbar. The passages stick to the window's top, or to its bottom if they are taller than it; the
// best passage of the chosen span stays in view wherever it stands among them.

import {byId} from "./elements.js";
import {selection} from "./selection.js";

const GAP = 10;

/** The part of the window between the bar at the top and the one for marks: [top, height]. */
function room() {
  const top = document.querySelector("header.bar").offsetHeight;
  const marks = byId("detail").querySelector(".mark-bar")?.offsetHeight ?? 0;
  return [top + GAP, innerHeight - top - marks - 2 * GAP];
}

/** Let the passages stick, once the open answer or the window has changed. */
export function holdPassages() {
  const stack = byId("detail").querySelector(".passage-stack");
  if (!stack) return;
  const [top, height] = room();
  stack.style.setProperty("--stick-top", `${Math.min(top, top + height - stack.offsetHeight)}px`);
  holdBest();
}

/** Let the best passage of the chosen span stick, so that its first lit piece is in view. */
export function holdBest() {
  const detail = byId("detail");
  detail.querySelector(".passage.held")?.classList.remove("held");
  const best = selection.span === null ? null : detail.querySelector(".passage.best");
  if (!best) return;
  const [top, height] = room();
  const hidden = Math.max(0, best.offsetHeight - height);
  const piece = best.querySelector(".piece.lit");
  const place = piece ? piece.getBoundingClientRect().top - best.getBoundingClientRect().top : 0;
  const above = Math.min(hidden, Math.max(0, place - height / 3));
  best.style.setProperty("--stick-top", `${top - above}px`);
  best.style.setProperty("--stick-bottom", `${innerHeight - top - height - (hidden - above)}px`);
  best.classList.add("held");
}
