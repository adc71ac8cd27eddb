// Filters and order of the worklist.

import {answerKindName, supportName} from "./claims.js";
import {byId, el} from "./elements.js";
import {itemMark, MARKS} from "./marks.js";
import {GLYPHS, haystack, items, SUPPORTS} from "./page_data.js";
import {NOTHING} from "./texts.js";

export const FILTERS = ["answer", "support", "kind", "reason", "generator", "mark"];
const ORDERS = {risk: "risk", newest: "newest", id: "record id"};
export const NO_GENERATOR = "\u0000none";

export function fillFilters() {
  const answers = items.filter((item) => item.kind === "answer");
  const present = new Set(answers.flatMap((item) => item.spans.map((span) => span.support)));
  options("answer", distinct(answers.map((item) => item.answer_kind)), answerKindName);
  options(
    "support",
    [
      ...SUPPORTS,
      ...Object.keys(GLYPHS)
        .slice(SUPPORTS.length)
        .filter((one) => present.has(one)),
    ],
    supportName,
  );
  options("kind", distinct(answers.flatMap((item) => item.spans.map((span) => span.kind))));
  const why = distinct(answers.flatMap((item) => [...item.reasons]));
  const deadLetters = distinct(items.filter((item) => item.kind === "deadLetter").map((item) => item.reason));
  options("reason", []);
  byId("filter-reason").append(
    ...[
      ["Answers", why],
      ["Dead letters", deadLetters],
    ]
      .filter(([, names]) => names.length)
      .map(([label, names]) =>
        el(
          "optgroup",
          {label},
          names.map((name) => el("option", {value: name}, name)),
        ),
      ),
  );
  const generators = distinct(answers.map((item) => item.generator ?? NO_GENERATOR));
  options("generator", generators, (name) => (name === NO_GENERATOR ? NOTHING : name));
  options("mark", ["none", ...MARKS, "noted"]);
  byId("filter-order").append(...Object.entries(ORDERS).map(([value, name]) => el("option", {value}, name)));
}

function options(name, values, label = (value) => value) {
  byId(`filter-${name}`).append(
    el("option", {value: ""}, "all"),
    ...values.map((value) => el("option", {value}, label(value))),
  );
}

function distinct(values) {
  return [...new Set(values)].sort();
}

function chosenFilters() {
  return Object.fromEntries(FILTERS.map((name) => [name, byId(`filter-${name}`).value]));
}

/** The items that pass all filters, in the chosen order; dead letters come last. */
export function filteredItems() {
  const chosen = chosenFilters();
  const words = byId("filter-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = items.filter((item) => passes(item, chosen) && words.every((word) => haystack(item).includes(word)));
  return found.sort(order(byId("filter-order").value));
}

function passes(item, {answer, support, kind, reason, generator, mark}) {
  if (answer && item.answer_kind !== answer) return false;
  if (
    (support || kind) &&
    !item.spans.some((span) => (!support || span.support === support) && (!kind || span.kind === kind))
  )
    return false;
  if (reason && !item.reasons.has(reason)) return false;
  if (generator && (item.kind !== "answer" || (item.generator ?? NO_GENERATOR) !== generator)) return false;
  return !mark || (itemMark(item) || "none") === mark;
}

function order(name) {
  const keys = {
    risk: () => 0,
    newest: (a, b) => compare(b.at ?? "", a.at ?? ""),
    id: (a, b) => compare(a.id ?? "", b.id ?? ""),
  };
  return (a, b) => compare(a.kind, b.kind) || keys[name](a, b) || a.index - b.index;
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Whether the worklist is in the order of risk. */
export function isRanked() {
  return byId("filter-order").value === "risk";
}

export function anyFilter() {
  return byId("filter-text").value !== "" || Object.values(chosenFilters()).some(Boolean);
}

export function resetFilters() {
  byId("filter-text").value = "";
  for (const name of FILTERS) byId(`filter-${name}`).value = "";
}

/** Set a filter, even to a value that no listed answer has: plots also count answers that are not in the worklist. */
export function choose(field, value) {
  if (![...field.options].some((option) => option.value === value)) field.append(el("option", {value}, value));
  field.value = value;
}
