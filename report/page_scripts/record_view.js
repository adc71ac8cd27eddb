// One item beside the list: an answer with its spans and passages, or a dead letter.

import {answerKindName, marked} from "./claims.js";
import {copyable, copyButton, el} from "./elements.js";
import {markBar} from "./mark_bar.js";
import {markdownRanges, place, styled} from "./markdown.js";
import {pieces, spanText} from "./page_data.js";
import {answerRanges, cut, evidenceRanges, innermost} from "./segments.js";
import {spanList} from "./span_list.js";
import {moment, percentOf, shortened, spaced} from "./texts.js";
import {thenAndNow} from "./then_and_now.js";
import {term} from "./words.js";
import {address} from "./worklist.js";

export function answerView(item) {
  return [
    crumbs(item, [
      item.generator,
      moment(item.at),
      ["answer", "not_judged"].includes(item.answer_kind) ? "" : answerKindName(item.answer_kind),
      item.risk === null ? "" : [term("answer risk", "risk"), ` ${percentOf(item.risk)}`],
      ...item.not_judged.map((reason) => `not judged: ${reason}`),
      ...item.extra.map(([name, value]) => `${name}: ${value}`),
    ]),
    item.question === null
      ? el(
          "p",
          {class: "warning"},
          "The log of this answer is not there as it was audited, or its texts are too long for this page. Shown are its spans and their evidence.",
        )
      : el("h2", {class: "question", dir: "auto"}, item.question),
    el(
      "div",
      {class: "columns"},
      el("div", {}, answerText(item), spanList(item), thenAndNow(item)),
      passageCardsOf(item),
    ),
    markBar(item),
  ];
}

function crumbs(item, facts) {
  const parts = facts.filter(Boolean).map((fact) => el("bdi", {}, ...[fact].flat()));
  const link = () => `${location.href.replace(/#.*$/s, "")}${address(item)}`;
  return el(
    "div",
    {},
    el("a", {class: "back", href: "#answers"}, "← Back to the list"),
    el(
      "p",
      {class: "crumbs"},
      el("b", {}, item.id === null ? `row ${item.row}` : copyable(item.id)),
      el("bdi", {title: item.file}, `${item.file.split("/").at(-1)}, row ${item.row}`),
      parts,
      copyButton(link, "Copy a link to this answer", "copy link"),
    ),
  );
}

function answerText(item) {
  if (item.answer === null) return null;
  const box = el("div", {class: "answer-text", dir: "auto"});
  for (const [part, hits] of cut(item.answer, [...answerRanges(item), ...markdownRanges(item.answer)])) {
    const markdown = hits.filter((hit) => hit.markdown);
    place(box, styled(segment(item, part, hits), markdown), markdown);
  }
  return el("section", {"aria-label": "Answer text"}, box);
}

function segment(item, part, hits) {
  const of = (kind) => [...new Set(hits.filter((hit) => hit.kind === kind).map((hit) => hit.span))];
  const spans = of("span");
  const text = marked(part, of("unmatched").length, of("suspect").length);
  if (!spans.length && !of("fact").length) return text;
  const inner = innermost(item, spans);
  const support = inner === null ? "" : `seg ${item.spans[inner].support}`;
  return el(
    "span",
    {class: `part ${support}`, "data-spans": spans.join(" "), "data-facts": of("fact").join(" "), "data-inner": inner},
    text,
  );
}

function passageCardsOf(item) {
  const shown = item.passages.length
    ? item.passages.map((passage, index) => wholePassage(item, passage, index))
    : fragmentPassages(item);
  return el("section", {class: "passages", "aria-label": "Passages"}, el("div", {class: "passage-stack"}, shown));
}

function wholePassage(item, passage, index) {
  const head = passageHead(passage.id, index);
  const title = passage.title
    ? el("h3", {dir: "auto"}, markedText(item, passage.title, evidenceRanges(item, index, true)))
    : null;
  const text = el(
    "div",
    {class: "passage-text", dir: "auto"},
    markedText(item, passage.text, evidenceRanges(item, index, false)),
  );
  const used = item.spans.some((span) => span.scores[index] > 0);
  return el(
    "section",
    {class: `passage ${used ? "" : "unused"}`, "data-passage": index, "aria-label": `Passage ${index + 1}`},
    head,
    title,
    text,
  );
}

function passageHead(id, index) {
  return el(
    "div",
    {class: "passage-head"},
    el("span", {class: "rank"}, `Passage ${index + 1}`),
    el("span", {class: "id"}, id ? copyable(id) : ""),
    el("span", {class: "score"}),
  );
}

/** The text with its evidence marked; every piece can have the focus and knows its spans. */
function markedText(item, text, ranges) {
  return cut(text, ranges).map(([part, hits]) => (hits.length ? piece(item, part, hits) : part));
}

function piece(item, part, hits) {
  const spans = [...new Set(hits.map((hit) => hit.span))];
  const names = spans
    .slice(0, 3)
    .map((index) => shortened(spanText(item, item.spans[index]), 60))
    .join("; ");
  const node = el(
    "mark",
    {
      class: "piece",
      tabindex: 0,
      role: "button",
      "aria-label": `${part.trim() || "white space"}: evidence for ${names}`,
      "data-spans": spans.join(" "),
    },
    part,
  );
  node.scores = new Map(
    spans.map((index) => [index, Math.max(...hits.filter((hit) => hit.span === index).map((hit) => hit.score))]),
  );
  return node;
}

/** The evidence alone, if the log cannot be read. */
function fragmentPassages(item) {
  const count = Math.max(0, ...item.spans.map((span) => span.scores.length));
  return [...Array(count).keys()].map((index) => fragmentPassage(item, index));
}

function fragmentPassage(item, index) {
  const shown = fragments(item, index);
  const parts = shown.map((one) => el("span", {class: "fragment"}, piece(item, one.text, one.hits)));
  return el(
    "section",
    {class: `passage ${shown.length ? "" : "unused"}`, "data-passage": index, "aria-label": `Passage ${index + 1}`},
    passageHead(shown[0]?.id, index),
    el("div", {class: "passage-text", dir: "auto"}, parts),
  );
}

/** The different pieces of evidence in one passage, each with the spans that rest on it. */
function fragments(item, index) {
  const found = new Map();
  for (const [spanIndex, span] of item.spans.entries()) {
    for (const one of pieces(span).filter((other) => other.passage === index)) {
      const key = JSON.stringify([one.title, ...one.at]);
      if (!found.has(key)) found.set(key, {id: one.id, text: one.text, hits: []});
      found.get(key).hits.push({span: spanIndex, score: one.score});
    }
  }
  return [...found.values()];
}

export function deadLetterView(item) {
  return [
    crumbs(item, [`stage ${item.stage}`, item.column ? `column ${item.column}` : ""]),
    el("h2", {class: "question"}, `Not audited: ${spaced(item.reason)}`),
    el("p", {class: "dead-letter-message", dir: "auto"}, item.message),
    item.answer
      ? el(
          "section",
          {class: "dead-letter-answer", "aria-label": "Answer text"},
          el("p", {class: "label"}, "Answer"),
          el("div", {class: "answer-text", dir: "auto"}, item.answer),
        )
      : null,
    markBar(item),
  ];
}
