// Highlights: a span lights its evidence, its atomic fact and its passage scores; evidence lights the spans that rest on it.

import {byId, shareBar} from "./elements.js";
import {showMarkBar} from "./mark_bar.js";
import {pieces, selection} from "./page_data.js";
import {innermost} from "./segments.js";
import {percent} from "./texts.js";

/** Light one span, or none. */
function lightSpan(index) {
  const detail = byId("detail");
  detail.classList.toggle("lighting", index !== null);
  for (const node of detail.querySelectorAll("[data-spans]")) {
    const lit = index !== null && has(node, "spans", index);
    node.classList.toggle("lit", lit);
    if (node.scores) heat(node, lit ? node.scores.get(index) : 0, index);
  }
  for (const node of detail.querySelectorAll("[data-facts]"))
    node.classList.toggle("fact", index !== null && has(node, "facts", index));
  for (const node of detail.querySelectorAll("[data-span]"))
    node.classList.toggle("lit", Number(node.dataset.span) === index);
  for (const node of detail.querySelectorAll("[data-span].touched")) node.classList.remove("touched");
  showScores(index);
}

function has(node, name, index) {
  return node.dataset[name].split(" ").includes(String(index));
}

/** The larger a piece's score, the brighter it is. */
function heat(node, score, index) {
  if (index === null) return node.style.removeProperty("--heat");
  const best = Math.max(...pieces(selection.item.spans[index]).map((piece) => piece.score), 1e-9);
  return node.style.setProperty("--heat", `${Math.round(45 + 55 * (score / best))}%`);
}

/** Passage scores of one span, or of all spans together. */
export function showScores(index) {
  const spans = index === null ? selection.item.spans : [selection.item.spans[index]];
  const sums = spans.reduce((all, span) => span.scores.map((score, passage) => score + (all[passage] ?? 0)), []);
  const total = sums.reduce((a, b) => a + b, 0);
  for (const node of byId("detail").querySelectorAll("[data-passage]")) {
    const share = total ? sums[node.dataset.passage] / total : 0;
    node.querySelector(".score").replaceChildren(shareBar(share), percent.format(share));
    node.classList.toggle("best", index !== null && selection.item.spans[index].top === Number(node.dataset.passage));
  }
}

/** Light the spans that rest on a piece of evidence. */
function lightPiece(node) {
  const spans = node.dataset.spans.split(" ");
  const detail = byId("detail");
  detail.classList.add("lighting");
  for (const other of detail.querySelectorAll(".part"))
    other.classList.toggle(
      "lit",
      other.dataset.spans.split(" ").some((index) => index && spans.includes(index)),
    );
  for (const other of detail.querySelectorAll("[data-span]"))
    other.classList.toggle("touched", spans.includes(other.dataset.span));
  for (const other of detail.querySelectorAll(".piece")) other.classList.toggle("lit", other === node);
}

/** Keep one span lit and its row in view, and let marks belong to it; null releases it. */
export function pin(index) {
  selection.span = index;
  for (const node of byId("detail").querySelectorAll("[data-span]"))
    node.setAttribute("aria-pressed", String(Number(node.dataset.span) === index));
  byId("detail")
    .querySelector(`details:not([open]) [data-span="${index}"]`)
    ?.closest("details")
    .setAttribute("open", "");
  lightSpan(index);
  showMarkBar();
  holdBest();
}

/** The spans of the rows, claims first, and the place among them of the one that is picked, or of its claim. */
function picked() {
  const rows = [...byId("detail").querySelectorAll(".span-row")].map((row) => Number(row.dataset.span));
  return [rows, rows.indexOf(selection.item.spans[selection.span]?.claim ?? selection.span)];
}

/** The next claim after one was marked; the last one stays. A button that was pressed keeps the focus. */
function pinNext() {
  const [rows, place] = picked();
  if (place === rows.length - 1) return;
  const pressed = document.activeElement.closest(".mark-bar button");
  pinNeighbour(1);
  pressed?.focus();
}

export function pinNeighbour(step) {
  if (selection.item?.kind !== "answer") return;
  const [rows, place] = picked();
  if (!rows.length) return;
  pin(rows[place < 0 ? (step > 0 ? 0 : rows.length - 1) : (place + step + rows.length) % rows.length]);
  const row = byId("detail").querySelector(`[data-span="${selection.span}"]`);
  row.scrollIntoView({block: "nearest"});
  row.focus();
}

/** What an event points at: a piece of evidence, a span's index, or nothing. */
function target(event) {
  const node = event.target instanceof Element ? event.target : null;
  const evidence = node?.closest(".piece") ?? null;
  const row = node?.closest("[data-span]");
  const part = node?.closest("[data-inner]");
  return {evidence, span: row ? Number(row.dataset.span) : part ? Number(part.dataset.inner) : null};
}

function lightTarget(event) {
  if (selection.item?.kind !== "answer") return;
  const {evidence, span} = target(event);
  if (evidence) lightPiece(evidence);
  else lightSpan(span ?? selection.span);
}

function pinTarget(event) {
  if (selection.item?.kind !== "answer") return;
  const {evidence, span} = target(event);
  if (evidence) pin(innermost(selection.item, evidence.dataset.spans.split(" ").map(Number)));
  else if (span !== null) pin(span === selection.span ? null : span);
}

export function watchHighlights() {
  const detail = byId("detail");
  detail.addEventListener("mouseover", lightTarget);
  detail.addEventListener("focusin", lightTarget);
  detail.addEventListener("mouseleave", () => selection.item?.kind === "answer" && lightSpan(selection.span));
  detail.addEventListener("click", pinTarget);
  detail.addEventListener("marked", pinNext);
  detail.addEventListener("keydown", (event) => {
    if (event.target.classList.contains("piece") && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      pinTarget(event);
    }
  });
}

// Where passages stay while the page scrolls: beside the answer, in a window that is wide enough for both.
//
// The page has one scrollbar. The passages stick to the window's top, or to its bottom if they are taller than it; the
// best passage of the chosen span stays in view wherever it stands among them.

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
function holdBest() {
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
