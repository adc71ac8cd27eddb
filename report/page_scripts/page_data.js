// The data in the page, read once, the items of the worklist made from it, and which of them is selected.

import {byId} from "./elements.js";
import {slice, spaced} from "./texts.js";

function embedded(name) {
  return JSON.parse(byId(`data-${name}`).textContent);
}

export const audit = embedded("audit");
export const plotData = embedded("plots");
export const SUPPORTS = ["supported", "weak", "unsupported"];
export const GLYPHS = {
  supported: "●",
  weak: "◐",
  unsupported: "○",
  not_calibrated: "◌",
  no_claim: "–",
  not_judged: "?",
};

/** Answers by risk, then refusals, then answers that cannot be judged, then dead letters; ``index`` is an item's place in this list. */
export const items = [
  ...embedded("answers").map((answer) => ({kind: "answer", ...answer})),
  ...embedded("dead-letters").map((deadLetter) => ({
    kind: "deadLetter",
    id: deadLetter.record_id,
    file: deadLetter.source_file,
    row: deadLetter.source_row,
    ...deadLetter,
  })),
].map((item, index) => ({...item, index, ...(item.kind === "answer" ? answerFacts(item) : deadLetterFacts(item))}));

const firstOfId = new Map();
for (const item of items) if (item.id !== null && !firstOfId.has(item.id)) firstOfId.set(item.id, item);

/** The first item with a record id, undefined if there is none. */
export function itemOfId(id) {
  return firstOfId.get(id);
}

/** How much an answer's risk rose since the earlier audit; 0 where there is nothing to compare. */
export function riskChange(item) {
  const before = item.before?.risk ?? null;
  return before === null || (item.risk ?? null) === null ? 0 : item.risk - before;
}

/** What filters and the worklist need to know of an answer. */
function answerFacts(answer) {
  const claims = answer.spans.filter((span, index) => span.claim === index);
  const counts = {};
  for (const span of claims) counts[span.support] = (counts[span.support] ?? 0) + 1;
  const reasons = new Set(answer.not_judged.map((reason) => `not judged: ${reason}`));
  for (const span of claims) {
    if (span.reason !== null) reasons.add(spaced(span.reason));
    if (span.unmatched.length) reasons.add("unmatched value");
    if (span.top === null) reasons.add("no evidence at all");
    if (span.isolated) reasons.add("isolated evidence only");
  }
  const unmatched = [...new Set(claims.flatMap((span) => span.unmatched))];
  return {counts, reasons, unmatched};
}

function deadLetterFacts(deadLetter) {
  return {
    counts: {},
    reasons: new Set([deadLetter.reason]),
    unmatched: [],
    spans: [],
  };
}

/** The text of a span, cut out of the answer if the page has it. */
export function spanText(item, span) {
  return span.text ?? slice(item.answer, ...span.at);
}

/** The evidence of a span; ``text`` and ``id`` are set only if the page lacks the passages. */
export function pieces(span) {
  span.pieces ??= span.evidence.map(([passage, title, start, end, score, id, text]) => ({
    passage,
    title: title === 1,
    at: [start, end],
    score,
    id,
    text,
  }));
  return span.pieces;
}

/** All texts of an item that can be searched, in lower case. */
export function haystack(item) {
  if (item.haystack === undefined) {
    const passages = (item.passages ?? []).flatMap((passage) => [passage.id, passage.title, passage.text]);
    const spans = item.spans.flatMap((span) => [
      span.text,
      ...(item.answer === null ? pieces(span).map((piece) => piece.text) : []),
    ]);
    const texts = [item.id, item.question, item.answer, item.message, ...passages, ...spans];
    item.haystack = texts.filter(Boolean).join("\n").toLowerCase();
  }
  return item.haystack;
}

// What is selected: the open item of the worklist, and one of its spans if a person has picked one.

export const selection = {item: null, span: null};
