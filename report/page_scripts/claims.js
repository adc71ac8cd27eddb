// Claims: which spans of an answer are claims, what lies within each, and verdicts in words.

import {el} from "./elements.js";
import {GLYPHS, spanText} from "./page_data.js";
import {cut, markdownRanges, suspects} from "./segments.js";
import {length, MEANINGS, occurrences, spaced, term} from "./texts.js";

const NAMES = {no_claim: "no claim", not_judged: "not judged", not_calibrated: "not calibrated"};
const ANSWER_KINDS = {
  answer: "answer",
  partial: "refuses in part",
  refusal: "refusal",
  no_claim: "no claim",
  not_judged: "not judged",
};
const SCORE_WORDS = [
  [0.9, "very likely"],
  [0.7, "likely"],
  [0.4, "unclear"],
  [0.15, "unlikely"],
  [0, "very unlikely"],
];

/** The claims in the order of the answer, each with the spans within it that take its verdict. */
export function claimsOf(item) {
  const claims = item.spans.flatMap((span, index) => (span.claim === index ? [{index, parts: []}] : []));
  const byIndex = new Map(claims.map((claim) => [claim.index, claim]));
  for (const [index, span] of item.spans.entries())
    if (span.claim !== index) byIndex.get(span.claim)?.parts.push(index);
  for (const claim of claims) claim.parts.sort(inOrder(item));
  return claims.sort((a, b) => inOrder(item)(a.index, b.index));
}

/** The spans that are no claim and within none, in the order of the answer. */
export function othersOf(item) {
  return [...item.spans.keys()].filter((index) => item.spans[index].claim === null).sort(inOrder(item));
}

function inOrder(item) {
  return (a, b) => item.spans[a].at[0] - item.spans[b].at[0] || item.spans[b].at[1] - item.spans[a].at[1];
}

export function supportName(support) {
  return NAMES[support] ?? support;
}

export function answerKindName(kind) {
  return ANSWER_KINDS[kind] ?? kind;
}

/** What a verdict says of a claim: true if it lacks support (or is weak), false if not, null if there is no verdict. */
export function lacksSupport(span) {
  if (span.support === "supported") return false;
  return ["weak", "unsupported"].includes(span.support) ? true : null;
}

/** Why an unsupported claim is called so, or how another is supported, in words; nothing where it is not told. */
function told(before, value, name) {
  return value === null ? [] : [before, term(name, spaced(value))];
}

/** The verdict on a span with its reason, or why there is none. */
export function verdict(span) {
  const none = span.claim === null && span.claim_kind !== "claim" ? `: ${span.claim_kind}` : "";
  const why = told(": ", span.reason, "reason");
  return el("b", {class: `verdict ${span.support}`}, supportName(span.support), none, why);
}

function scoreWord(score) {
  return SCORE_WORDS.find(([least]) => score >= least)[1];
}

/** The figure that stands for a span: its support score, else its evidence mass, and what it means. */
export function measureOf(span) {
  const [share, name] = span.score === null ? [span.mass, "evidence mass"] : [span.score, "support score"];
  return [share, `${name}: ${MEANINGS[name]}`];
}

/** What follows the verdict: what the evidence says instead, the score in words, the passage, what is not there. */
export function spanFacts(span) {
  const facts = [span.kind];
  if (span.score !== null) facts.unshift(`support ${scoreWord(span.score)} (${span.score.toFixed(2)})`);
  if (span.top === null) facts.push("no evidence");
  else facts.push([`best passage ${span.top + 1}, `, term("margin", `margin ${span.margin.toFixed(2)}`)]);
  if (span.isolated) facts.push("isolated evidence only");
  if (span.unmatched.length) facts.push(["not in the passages: ", el("bdi", {}, span.unmatched.join(", "))]);
  const instead = span.expected === null ? [] : [" — evidence says: ", el("bdi", {}, span.expected)];
  return [...instead, ...told(", ", span.how, "how"), ...facts.flatMap((fact) => [", ", fact]).flat()];
}

/** The text of a span, with what no passage has struck out, and what speaks most against it marked. */
export function struckText(item, span) {
  const text = spanText(item, span);
  const unmatched = span.unmatched.flatMap((value) => occurrences(text, value));
  const against = suspects(span).map((range) => range.map((place) => place - span.at[0]));
  const ranges = [
    ...unmatched.map((range) => [...range, "unmatched"]),
    ...against.map((range) => [...range, "suspect"]),
    ...syntaxWithin(item, span, text),
  ];
  return cut(text, ranges)
    .filter(([, hits]) => !hits.includes("syntax"))
    .map(([part, hits]) => marked(part, hits.includes("unmatched"), hits.includes("suspect")));
}

/** What of a span's text is only Markdown's syntax, as ranges within the span. */
function syntaxWithin(item, span, text) {
  if (item.answer === null) return [];
  item.syntax ??= markdownRanges(item.answer).filter(([, , {markdown}]) => ["syntax", "bullet"].includes(markdown));
  return item.syntax
    .map(([start, end]) => [Math.max(0, start - span.at[0]), Math.min(length(text), end - span.at[0]), "syntax"])
    .filter(([start, end]) => start < end);
}

/** A part of a text, struck out if no passage with evidence has it, else marked if it speaks against its claim. */
export function marked(part, unmatched, suspect) {
  if (unmatched) return el("s", {class: "unmatched", title: "in no passage with evidence"}, part);
  return suspect ? el("em", {class: "suspect", title: "speaks most against this claim"}, part) : part;
}

export function glyph(span) {
  return el("span", {class: `glyph ${span.support}`, "aria-hidden": "true"}, GLYPHS[span.support]);
}
