// Cuts texts at the ends of ranges, which may overlap and nest.

import {pieces, spanText} from "./page_data.js";
import {length, occurrences, slice} from "./texts.js";

/**
 * Cut a text at all ends of ``ranges`` ([start, end, value]).
 * The pairs [text, values] make up the whole text; values are those of the ranges that cover the piece.
 */
export function cut(text, ranges) {
  const size = length(text);
  const inside = ranges.filter(([start, end]) => start >= 0 && start < end && end <= size);
  const ends = [...new Set([0, size, ...inside.flatMap((range) => range.slice(0, 2))])].sort((a, b) => a - b);
  return ends.slice(1).map((end, index) => {
    const start = ends[index];
    return [
      slice(text, start, end),
      inside.filter(([from, to]) => from <= start && end <= to).map(([, , value]) => value),
    ];
  });
}

/** Ranges of the answer that speak most against an unsupported span; an audit may not have them. */
export function suspects(span) {
  return span.words ?? [];
}

/** Ranges of the answer: each span, its atomic fact, its unmatched values, and what speaks most against it. */
export function answerRanges(item) {
  return item.spans.flatMap((span, index) => [
    [...span.at, {kind: "span", span: index}],
    ...span.fact.map((range) => [...range, {kind: "fact", span: index}]),
    ...unmatchedRanges(item, span).map((range) => [...range, {kind: "unmatched", span: index}]),
    ...suspects(span).map((range) => [...range, {kind: "suspect", span: index}]),
  ]);
}

function unmatchedRanges(item, span) {
  const text = spanText(item, span);
  const found = span.unmatched.flatMap((value) => occurrences(text, value));
  return found.map(([start, end]) => [start + span.at[0], end + span.at[0]]);
}

/** Pieces of evidence in one passage's text or title, with the span that each belongs to. */
export function evidenceRanges(item, passage, inTitle) {
  return item.spans.flatMap((span, index) =>
    pieces(span)
      .filter((piece) => piece.passage === passage && piece.title === inTitle)
      .map((piece) => [...piece.at, {span: index, score: piece.score}]),
  );
}

/** The shortest of some spans: where spans nest, a person means the innermost. */
export function innermost(item, spans) {
  const size = (index) => item.spans[index].at[1] - item.spans[index].at[0];
  return spans.reduce((best, index) => (best === null || size(index) < size(best) ? index : best), null);
}
