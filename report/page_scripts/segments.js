// Cuts texts at the ends of ranges, which may overlap and nest; those of an answer's Markdown, too.

import {el} from "./elements.js";
import {pieces, spanText} from "./page_data.js";
import {length, occurrences, point, slice} from "./texts.js";

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

// Markdown of answers as ranges of their text: what is bold, a heading or a cell, and which characters are only syntax.
//
// The text stays as it is, so that offsets keep their meaning; the page hides syntax and styles the rest.

const INLINE =
  /(?<code>`+)(?<c>[^`\n]+)\k<code>|(?<strong>\*\*|(?<!\w)__)(?=\S)(?<s>[^\n]{0,500}?\S)\k<strong>|(?<em>(?<![*\w])\*(?![*\s])|(?<!\w)_(?![_\s]))(?<e>[^*_\n]{0,500}[^*_\s])\k<em>(?![\w*])/g;
const LINE_START = /^[ \t]*(?:(?<heading>#{1,6}[ \t]+)|(?<bullet>[-*+][ \t]+))/;
const FENCE = /^[ \t]*(?:```|~~~)/;
const MOST_RANGES = 3000;
const DELIMITERS = /^\|?:?-+:?(?:\|:?-+:?)*\|?$/;
const BAR = /[ \t]{0,99}(?<!\\)\|[ \t]*|\n$/g; // bounded: a search through a long run of blanks would take its square

/**
 * [start, end, {markdown, ...}] in code points; ``markdown`` is a tag, "heading", "bullet", "syntax" or "cell".
 * A text with more of it than anybody writes has none.
 */
export function markdownRanges(text) {
  const found = [];
  const add = (start, end, markdown, more = {}) => {
    if (start < end) found.push([start, end, {markdown, ...more}]);
  };
  const lines = [...text.matchAll(/[^\n]*(?:\n|$)/g)].filter(([line]) => line);
  const isRow = (index) => lines[index]?.[0].includes("|");
  const isRuled = (index) => isRow(index) && DELIMITERS.test(lines[index][0].replace(/\s+/g, ""));
  let fenced = false;
  let table = null;
  for (const [index, {0: line, index: start}] of lines.entries()) {
    const fence = FENCE.test(line);
    if (fence) fenced = !fenced;
    if (fenced || fence) {
      table = null;
      add(start, start + line.length, fence ? "syntax" : "code");
      continue;
    }
    if (table && !isRow(index)) table = null;
    if (!table && isRow(index) && !isRuled(index) && isRuled(index + 1)) table = {rows: 0, head: index};
    if (table && isRuled(index)) add(start, start + line.length, "syntax");
    if (table) cells(line, start, table, isRuled(index), add);
    else lineStart(line, start, add);
    inline(line, start, add);
  }
  if (found.length > MOST_RANGES) return [];
  return found.map(([start, end, what]) => [point(text, start), point(text, end), what]);
}

/** Cells with the bars around them, which are syntax; the row of dashes belongs to the last cell above it. */
function cells(line, start, table, ruled, add) {
  const bars = [...line.matchAll(BAR)];
  const between = (bar) => line.slice(0, bar.index).trim() && line.slice(bar.index + bar[0].length).trim();
  const ends = ruled ? [] : bars.filter(between);
  if (!ruled) table.rows += 1;
  for (const bar of bars) add(start + bar.index, start + bar.index + bar[0].length, "syntax");
  let from = start;
  for (const [column, end] of [
    ...ends.map((bar) => start + bar.index + bar[0].length),
    start + line.length,
  ].entries()) {
    add(from, end, "cell", {table, row: table.rows - 1, column: ruled ? null : column});
    from = end;
  }
}

function lineStart(line, start, add) {
  const {heading, bullet} = LINE_START.exec(line)?.groups ?? {};
  const indent = start + line.search(/\S|$/);
  if (heading) {
    add(indent, indent + heading.length, "syntax");
    add(indent + heading.length, start + line.length, "heading");
  }
  if (bullet) add(indent, indent + bullet.length, "bullet");
}

function inline(line, start, add) {
  for (const {index, groups, 0: whole} of line.matchAll(INLINE)) {
    const tag = ["code", "strong", "em"].find((name) => groups[name]);
    const mark = groups[tag].length;
    const [from, end] = [start + index, start + index + whole.length];
    add(from, from + mark, "syntax");
    add(from + mark, end - mark, tag);
    add(end - mark, end, "syntax");
    if (tag === "strong") inline(line.slice(index + mark, index + whole.length - mark), from + mark, add);
  }
}

/** A node in the style of the ranges that cover it. */
export function styled(node, hits) {
  const of = new Set(hits.map((hit) => hit.markdown));
  if (of.has("syntax")) return el("span", {class: "syntax"}, node);
  if (of.has("bullet")) return el("span", {class: "bullet"}, el("span", {class: "syntax"}, node));
  let shown = node;
  for (const tag of ["em", "strong", "code"]) if (of.has(tag)) shown = el(tag, {}, shown);
  return of.has("heading") ? el("strong", {class: "heading"}, shown) : shown;
}

/** Put a part of the text into the box, or into its cell of a table there. */
export function place(box, node, hits) {
  const cell = hits.find((hit) => hit.markdown === "cell");
  if (!cell) return box.append(node);
  const {table, row, column} = cell;
  table.node ??= el("table");
  if (!table.node.parentNode) box.append(table.node);
  while (table.node.rows.length <= row) table.node.append(el("tr", {}));
  const line = table.node.rows[row];
  while (column !== null && line.cells.length <= column) line.append(el(row ? "td" : "th", {}));
  return line.cells[column ?? line.cells.length - 1].append(node);
}
