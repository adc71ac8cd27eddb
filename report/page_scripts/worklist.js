// The list of answers. Rows are made page by page, as they come into view.

import {answerKindName, struckText, supportName} from "./claims.js";
import {byId, copyButton, el, shortId} from "./elements.js";
import {anyFilter, filteredItems, isRanked} from "./filters.js";
import {itemMark} from "./marks.js";
import {GLYPHS, itemOfId, items, riskChange, selection, spanText} from "./page_data.js";
import {MEANINGS, number, percentOf, plural, shortened} from "./texts.js";

const PAGE = 60;
const LISTED_ID = 22;
export let listed = [];
let rowsMade = 0;

export function updateWorklist() {
  listed = filteredItems();
  rowsMade = 0;
  byId("worklist").replaceChildren();
  moreRows();
  byId("worklist").scrollTop = 0;
  const all = items.filter((item) => item.kind === "answer").length;
  const deadLetters = listed.filter((item) => item.kind === "deadLetter").length;
  const dead = deadLetters ? `, ${plural(deadLetters, "dead letter")}` : "";
  byId("found").textContent = `${number.format(listed.length - deadLetters)} of ${plural(all, "answer")}${dead}`;
  byId("filter-reset").hidden = !anyFilter();
  if (!listed.length) byId("worklist").append(el("li", {class: "empty"}, "Nothing passes these filters."));
  showCurrent();
}

function moreRows(until = rowsMade + PAGE) {
  const next = listed.slice(rowsMade, until);
  for (const [place, item] of next.entries()) {
    const heading = isRanked() ? groupOf(item) : "";
    if (heading && heading !== groupOf(listed[rowsMade + place - 1]))
      byId("worklist").append(el("li", {class: "group"}, heading));
    byId("worklist").append(el("li", {}, row(item), idButton(item)));
  }
  rowsMade += next.length;
}

/** What stands above the items that come apart, after those that are ranked by risk. */
function groupOf(item) {
  if (item?.kind === "deadLetter") return "Dead letters: rows that were not audited";
  if (item?.risk === null) return "Not judged";
  return item?.answer_kind === "refusal" ? "Refusals" : "";
}

function row(item) {
  const link = el("a", {href: address(item), id: `row-${item.index}`});
  link.append(...(item.kind === "answer" ? answerRow(item) : deadLetterRow(item)));
  return link;
}

/** The address of an item: its record id, so that the link holds on later pages, else its place in the list. */
export function address(item) {
  return itemOfId(item.id) === item ? `#answer=${encodeURIComponent(item.id)}` : `#answers/${item.index + 1}`;
}

/** Copies an id that the list shortens. */
function idButton(item) {
  return item.id === null || [...item.id].length <= LISTED_ID ? null : copyButton(item.id, `Copy ${item.id}`);
}

function answerRow(item) {
  const question = item.question ?? spanText(item, item.spans[0]);
  return [
    riskOf(item),
    el("span", {class: "item-question", dir: "auto"}, question || "(no question)"),
    el(
      "span",
      {class: "item-meta"},
      el("bdi", {title: item.id}, shortId(item.id, LISTED_ID)),
      ...whyTags(item),
      ...changeTags(item),
      ...markTags(item),
    ),
  ];
}

/** What changed since the earlier audit, if anything did. */
function changeTags(item) {
  if (!item.change || item.change === "about the same") return [];
  return [el("span", {class: "tag kind"}, item.before ? `${item.change}, ${thenRisk(item)}` : item.change)];
}

function thenRisk(item) {
  return item.before.risk === null ? "was not judged" : `risk was ${percentOf(item.before.risk)}`;
}

function riskOf(item) {
  if (item.risk === null) return el("span", {class: "risk", title: "This answer cannot be judged."}, "–");
  if (item.answer_kind === "refusal") return el("span", {class: "risk"}, el("small", {}, "refusal"));
  return el(
    "span",
    {class: "risk", title: `Answer risk: ${MEANINGS["answer risk"]}`},
    percentOf(item.risk),
    el("small", {}, "risk"),
  );
}

function deadLetterRow(item) {
  return [
    el("span", {class: "risk", "aria-hidden": "true"}, "✕"),
    el(
      "span",
      {class: "item-question", dir: "auto", title: item.id ?? ""},
      item.id === null ? `row ${item.row}` : shortId(item.id, LISTED_ID),
    ),
    el("span", {class: "item-meta"}, el("span", {class: "tag"}, `not audited: ${item.reason}`), ...markTags(item)),
  ];
}

/** Tags that say why an answer is worth a look. */
function whyTags(item) {
  const counts = ["unsupported", "weak", "not_calibrated"].filter((support) => item.counts[support]);
  const tags = counts.map((support) =>
    el("span", {class: `tag ${support}`}, `${GLYPHS[support]} ${item.counts[support]} ${supportName(support)}`),
  );
  if (item.unmatched.length) tags.push(el("bdi", {class: "struck-tag"}, shortened(item.unmatched[0], 24)));
  if (!tags.length && item.counts.supported)
    tags.push(el("span", {class: "tag supported"}, `${GLYPHS.supported} all supported`));
  return [...kindTags(item), ...tags];
}

/** Tags that say what an answer is, if it does not just answer. */
function kindTags(item) {
  const reasons = item.not_judged.map((reason) => `not judged: ${reason}`);
  const kind = ["answer", "not_judged"].includes(item.answer_kind) ? [] : [answerKindName(item.answer_kind)];
  return [...kind, ...reasons].map((text) => el("span", {class: "tag kind"}, text));
}

function markTags(item) {
  const mark = itemMark(item);
  return mark ? [el("span", {class: "mark-badge"}, mark)] : [];
}

/** Rebuild a row after its marks have changed. */
export function refreshRow(item) {
  const old = byId(`row-${item.index}`);
  if (!old) return;
  const next = row(item);
  if (old.hasAttribute("aria-current")) next.setAttribute("aria-current", "true");
  const focused = document.activeElement === old;
  old.replaceWith(next);
  if (focused) next.focus();
}

/** Show which row is open; make rows up to it if needed. */
export function showCurrent() {
  byId("worklist").querySelector("[aria-current]")?.removeAttribute("aria-current");
  const place = listed.indexOf(selection.item);
  if (place < 0) return;
  if (place >= rowsMade) moreRows(place + PAGE);
  const open = byId(`row-${selection.item.index}`);
  open.setAttribute("aria-current", "true");
  open.scrollIntoView({block: "nearest"});
}

/** The item ``step`` places after the open one, or null beyond an end. */
export function neighbour(step) {
  const place = listed.indexOf(selection.item);
  return place < 0 ? (listed[0] ?? null) : (listed[place + step] ?? null);
}

export function watchList() {
  const scrolled = (box) => box.scrollTop + box.clientHeight > box.scrollHeight - 800 && moreRows();
  byId("worklist").addEventListener("scroll", (event) => scrolled(event.target));
  addEventListener("scroll", () => byId("worklist").clientHeight && scrolled(document.scrollingElement));
}

/** The riskiest answers, each by its riskiest claim, and those that changed most since the earlier audit. */
export function showFirst() {
  const first = items.filter((item) => item.kind === "answer" && item.risk > 0 && item.worst !== null).slice(0, 5);
  byId("first-answers").append(...first.map((item) => el("li", {}, firstLink(item))));
  const changed = items
    .filter((item) => item.before && item.worst !== null && item.change !== "about the same")
    .sort((a, b) => Math.abs(riskChange(b)) - Math.abs(riskChange(a)))
    .slice(0, 10);
  byId("changed-answers")?.append(...changed.map((item) => el("li", {}, firstLink(item, changeTags(item)))));
}

function firstLink(item, tags = null) {
  const claim = item.spans[item.worst];
  const missing = claim.unmatched.filter((value) => !spanText(item, claim).includes(value));
  return el(
    "a",
    {href: address(item)},
    riskOf(item),
    el("span", {class: "what", dir: "auto"}, struckText(item, claim)),
    el("span", {class: "asked", dir: "auto"}, item.question ?? item.id),
    el("span", {class: "why item-meta"}, ...(tags ?? whyTags({...item, unmatched: missing}))),
  );
}
