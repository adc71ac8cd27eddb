// The list of answers. Rows are made page by page, as they come into view.

import {byId, el} from "./elements.js";
import {anyFilter, filteredItems} from "./filters.js";
import {itemMark} from "./marks.js";
import {GLYPHS, items, spanText} from "./page_data.js";
import {selection} from "./selection.js";
import {number, percentOf, plural, shortened} from "./texts.js";

const PAGE = 60;
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
  byId("worklist").append(...next.map((item) => el("li", {}, row(item))));
  rowsMade += next.length;
}

function row(item) {
  const link = el("a", {href: address(item), id: `row-${item.index}`});
  link.append(...(item.kind === "answer" ? answerRow(item) : deadLetterRow(item)));
  return link;
}

export function address(item) {
  return `#answers/${item.index + 1}`;
}

function answerRow(item) {
  const question = item.question ?? spanText(item, item.spans[0]);
  return [
    el("span", {class: "risk"}, percentOf(item.risk), el("small", {}, "risk")),
    el("span", {class: "item-question", dir: "auto"}, question || "(no question)"),
    el("span", {class: "item-meta"}, el("bdi", {}, item.id), ...whyTags(item), ...markTags(item)),
  ];
}

function deadLetterRow(item) {
  return [
    el("span", {class: "risk", "aria-hidden": "true"}, "✕"),
    el("span", {class: "item-question", dir: "auto"}, item.id ?? `row ${item.row}`),
    el("span", {class: "item-meta"}, el("span", {class: "tag"}, `dead letter: ${item.reason}`), ...markTags(item)),
  ];
}

/** Tags that say why an answer is worth a look. */
function whyTags(item) {
  const counts = ["unsupported", "weak"].filter((support) => item.counts[support]);
  const tags = counts.map((support) =>
    el("span", {class: `tag ${support}`}, `${GLYPHS[support]} ${item.counts[support]} ${support}`),
  );
  if (item.unmatched.length) tags.push(el("bdi", {class: "struck-tag"}, shortened(item.unmatched[0], 24)));
  return tags.length ? tags : [el("span", {class: "tag supported"}, `${GLYPHS.supported} all supported`)];
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

export function showFirst() {
  const rows = items.filter((item) => item.kind === "answer" && item.risk > 0).slice(0, 5);
  byId("first-answers").append(
    ...rows.map((item) =>
      el(
        "li",
        {},
        el(
          "a",
          {href: address(item)},
          el("span", {class: "risk"}, percentOf(item.risk), el("small", {}, "risk")),
          el("span", {class: "what", dir: "auto"}, item.question ?? spanText(item, item.spans[0])),
          el("span", {class: "why item-meta"}, ...whyTags(item)),
        ),
      ),
    ),
  );
}
