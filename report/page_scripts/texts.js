// Texts by code points, as the records count them; JavaScript strings count UTF-16 units.

import {byId, el} from "./elements.js";

const counted = new Map();

/** The UTF-16 position of every code point, or null if both counts agree. */
function positions(text) {
  if (!counted.has(text)) counted.set(text, /[\ud800-\udfff]/.test(text) ? unitPositions(text) : null);
  return counted.get(text);
}

function unitPositions(text) {
  const units = [];
  let unit = 0;
  for (const point of text) {
    units.push(unit);
    unit += point.length;
  }
  units.push(unit);
  return units;
}

/** The characters [start, end), in code points. */
export function slice(text, start, end) {
  const units = positions(text);
  return units === null ? text.slice(start, end) : text.slice(units[start], units[end]);
}

/** The code point at a UTF-16 position. */
export function point(text, unit) {
  const units = positions(text);
  if (units === null) return unit;
  let [low, high] = [0, units.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (units[middle] < unit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Length in code points. */
export function length(text) {
  const units = positions(text);
  return units === null ? text.length : units.length - 1;
}

/** The half-open ranges, in code points, where ``part`` occurs in ``text``. */
export function occurrences(text, part) {
  const found = [];
  const size = length(part);
  for (let unit = text.indexOf(part); part && unit >= 0; unit = text.indexOf(part, unit + part.length)) {
    const start = length(text.slice(0, unit));
    found.push([start, start + size]);
  }
  return found;
}

export const NOTHING = "(none)";
export const number = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
export const percent = new Intl.NumberFormat("en", {style: "percent", maximumFractionDigits: 1});

export function plural(count, one, many = `${one}s`) {
  return `${number.format(count)} ${count === 1 ? one : many}`;
}

/** A time in ISO 8601 as date and time in UTC. */
export function moment(text) {
  return text ? `${text.slice(0, 10)} ${text.slice(11, 16)} UTC` : "";
}

/** A word of the records as people read it: "other_value" as "other value". */
export function spaced(word) {
  return word.replaceAll("_", " ");
}

export function shortened(text, size) {
  return length(text) > size ? `${slice(text, 0, size - 1)}…` : text;
}

export function percentOf(risk) {
  return String(Math.round(risk * 100));
}

// What the page's words mean, in plain words: as tooltips, and in the help.

export const MEANINGS = {
  claim: "A statement of the answer. It has one verdict, and names and numbers within it take that verdict.",
  supported: "The passages say what the claim says.",
  weak: "The passages may say it; have a look. The mark “right” says that it lacks support.",
  unsupported: "The passages do not say it, or say something else. An answer with such a claim is flagged.",
  reason:
    "Why a claim is unsupported: not in passages; the evidence has another value, entity (person, place, thing) or time; one of the two is negated; or it is reversed, as in who paid whom.",
  how: "How a claim is supported: quoted word by word, paraphrased in other words, or combined from several sentences.",
  "no claim": "Headings, questions, words about the answer itself: there is nothing to support.",
  "not judged": "Another language, code or a table, which cannot be judged here.",
  "not calibrated": "There are no thresholds for this model yet, so claims have no verdict.",
  "answer risk":
    "How likely the answer has an unsupported claim, from 0 to 100. The foot of the overview says how it was found.",
  "support score": "A calibrated probability that the passages support the claim, from 0 to 1.",
  "evidence mass": "The share of the claim's attention that lies on evidence, from 0 to 1.",
  margin: "How far the best passage leads: its share of all scores minus the share of the second.",
  "dead letter": "A row of the log that could not be audited; it comes with the reason.",
};

/** A text with what it means as its tooltip. */
export function term(word, text = word) {
  return el("abbr", {title: MEANINGS[word]}, text);
}

export function fillWords() {
  byId("words").append(
    ...Object.entries(MEANINGS).map(([word, meaning]) => el("div", {}, el("dt", {}, word), el("dd", {}, meaning))),
  );
}
