// Filters and order of the worklist.

import {answerKindName, supportName} from "./claims.js";
import {byId, el} from "./elements.js";
import {itemMark, MARKS} from "./marks.js";
import {audit, GLYPHS, haystack, items, riskChange, SUPPORTS} from "./page_data.js";
import {NOTHING, shortened} from "./texts.js";

export const FILTERS = ["answer", "support", "kind", "reason", "generator", "mark", "change"];
const ORDERS = {
  risk: "risk",
  newest: "newest",
  id: "record id",
  random: "random",
  ...(audit.compared ? {change: "change of risk"} : {}),
};
export const NO_GENERATOR = "\u0000none";
const MOST_OPTIONS = 50;

/** The columns that the audit carried from the log, each with the field that filters by it. */
const columnFields = new Map();

/** Fill the fields; ``changed`` is called when a person changes one. */
export function fillFilters(changed) {
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
  fillReasons(answers);
  const generators = distinct(answers.map((item) => item.generator ?? NO_GENERATOR));
  options("generator", generators, (name) => (name === NO_GENERATOR ? NOTHING : name));
  options("mark", ["none", ...MARKS, "noted"]);
  options("change", distinct(answers.map((item) => item.change ?? "")).filter(Boolean));
  fillColumns(answers);
  byId("filter-order").append(...Object.entries(ORDERS).map(([value, name]) => el("option", {value}, name)));
  byId("filter-text").addEventListener("input", changed);
  for (const name of [...FILTERS, "order"]) byId(`filter-${name}`).addEventListener("change", changed);
  for (const field of columnFields.values()) field.addEventListener("input", changed);
}

function fillReasons(answers) {
  const why = distinct(answers.flatMap((item) => [...item.reasons]));
  const deadLetters = distinct(items.filter((item) => item.kind === "deadLetter").map((item) => item.reason));
  options("reason", []);
  byId("filter-reason").append(
    ...[
      ["Answers", why],
      ["Not audited", deadLetters],
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
}

/** One field per carried column: a choice, or for many values a text that they should contain. */
function fillColumns(answers) {
  const names = distinct(answers.flatMap((item) => item.extra.map(([name]) => name)));
  for (const name of names) {
    const values = distinct(answers.map((item) => columnValue(item, name)));
    columnFields.set(name, values.length > MOST_OPTIONS ? el("input", {type: "search"}) : el("select"));
    if (values.length <= MOST_OPTIONS) columnFields.get(name).append(...choices(values, columnLabel));
    columnFields.get(name).dataset.column = name;
  }
  byId("column-filters").hidden = !names.length;
  byId("column-fields").append(
    ...[...columnFields].map(([name, field]) => el("label", {title: name}, el("bdi", {}, shortened(name, 24)), field)),
  );
}

function columnValue(item, name) {
  return item.extra.find(([one]) => one === name)?.[1] ?? NO_GENERATOR;
}

function columnLabel(value) {
  return value === NO_GENERATOR ? NOTHING : shortened(value, 60);
}

function options(name, values, label = (value) => value) {
  byId(`filter-${name}`).append(...choices(values, label));
}

function choices(values, label) {
  return [el("option", {value: ""}, "all"), ...values.map((value) => el("option", {value}, label(value)))];
}

function distinct(values) {
  return [...new Set(values)].sort();
}

function chosenFilters() {
  return Object.fromEntries(FILTERS.map((name) => [name, byId(`filter-${name}`).value]));
}

function chosenColumns() {
  return [...columnFields].filter(([, field]) => field.value !== "");
}

/** The items that pass all filters, in the chosen order; dead letters come last. */
export function filteredItems() {
  const chosen = chosenFilters();
  const columns = chosenColumns();
  const words = byId("filter-text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = items.filter(
    (item) =>
      passes(item, chosen) &&
      columns.every(([name, field]) => passesColumn(item, name, field)) &&
      words.every((word) => haystack(item).includes(word)),
  );
  return found.sort(order(byId("filter-order").value));
}

function passes(item, {answer, support, kind, reason, generator, mark, change}) {
  if (change && item.change !== change) return false;
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

function passesColumn(item, name, field) {
  if (item.kind !== "answer") return false;
  const value = columnValue(item, name);
  if (field.localName === "select") return value === field.value;
  return value !== NO_GENERATOR && value.toLowerCase().includes(field.value.toLowerCase());
}

function order(name) {
  const keys = {
    risk: () => 0,
    newest: (a, b) => compare(b.at ?? "", a.at ?? ""),
    id: (a, b) => compare(a.id ?? "", b.id ?? ""),
    random: (a, b) => shuffled(a) - shuffled(b),
    change: (a, b) => Math.abs(riskChange(b)) - Math.abs(riskChange(a)),
  };
  return (a, b) => compare(a.kind, b.kind) || keys[name](a, b) || a.index - b.index;
}

/** A number from an item's id that has nothing to do with its risk, the same on every page: a sample for marking. */
function shuffled(item) {
  let hash = 2166136261;
  for (const letter of item.id ?? String(item.row)) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619);
  hash = Math.imul(hash ^ (hash >>> 15), 2246822507);
  return (hash ^ (hash >>> 13)) >>> 0;
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Whether the worklist is in the order of risk. */
export function isRanked() {
  return byId("filter-order").value === "risk";
}

export function anyFilter() {
  return byId("filter-text").value !== "" || Object.values(chosenFilters()).some(Boolean) || chosenColumns().length > 0;
}

export function resetFilters() {
  byId("filter-text").value = "";
  for (const name of FILTERS) byId(`filter-${name}`).value = "";
  for (const field of columnFields.values()) field.value = "";
}

/** Set a filter, even to a value that no listed answer has: plots also count answers that are not in the worklist. */
export function choose(field, value) {
  if (field.localName === "select" && ![...field.options].some((option) => option.value === value))
    field.append(el("option", {value}, value));
  field.value = value;
}

/** Set the filter of a carried column; null is for answers without a value. */
export function chooseColumn(name, value) {
  const field = columnFields.get(name);
  if (!field) return;
  choose(field, value ?? NO_GENERATOR);
  byId("column-filters").open = true;
}
