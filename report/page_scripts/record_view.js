// One item beside the list: an answer with its spans and passages, or a dead letter.

import {
  answerKindName,
  claimsOf,
  glyph,
  marked,
  measureOf,
  othersOf,
  spanFacts,
  struckText,
  supportName,
  verdict,
} from "./claims.js";
import {copyable, copyButton, el, shareBar} from "./elements.js";
import {markBar} from "./mark_bar.js";
import {markOf} from "./marks.js";
import {GLYPHS, pieces, spanText} from "./page_data.js";
import {answerRanges, cut, evidenceRanges, innermost, markdownRanges, place, styled} from "./segments.js";
import {moment, percentOf, plural, shortened, spaced, term} from "./texts.js";
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

// The claims of one answer, each with the spans within it; below them what is no claim.

function spanList(item) {
  const claims = claimsOf(item);
  const others = othersOf(item);
  return el(
    "section",
    {class: "spans", "aria-label": "Claims"},
    claims.length ? el("p", {class: "label"}, plural(claims.length, "claim")) : null,
    el(
      "ol",
      {},
      claims.map(({index, parts}) =>
        el("li", {}, spanRow(item, index), parts.length ? partList(item, index, parts) : null),
      ),
    ),
    others.length ? otherSpans(item, others, !claims.length) : null,
  );
}

function otherSpans(item, others, open) {
  const judged = others.some((index) => item.spans[index].support === "not_judged");
  return el(
    "details",
    {class: "others", open},
    el(
      "summary",
      {},
      `${plural(others.length, "span")} ${judged ? "that are no claim or cannot be judged" : "that claim nothing"}`,
    ),
    el(
      "ol",
      {},
      others.map((index) => el("li", {}, spanRow(item, index))),
    ),
  );
}

function spanRow(item, index) {
  const span = item.spans[index];
  return el(
    "button",
    {type: "button", class: "span-row", "data-span": index, "aria-pressed": "false"},
    glyph(span),
    el("span", {class: "span-text", dir: "auto"}, struckText(item, span)),
    measure(span),
    spanMeta(item, index),
  );
}

/** Names and numbers within a claim, side by side; what is said of one shows once it is chosen. */
function partList(item, claim, parts) {
  return el(
    "div",
    {class: "parts", role: "group", "aria-label": "Within this claim"},
    parts.map((index) => {
      const span = item.spans[index];
      const own = span.unmatched.length || span.support !== item.spans[claim].support ? span.support : "";
      return el(
        "button",
        {type: "button", class: `part-chip ${own}`, "data-span": index, "aria-pressed": "false"},
        el("span", {class: "span-text", dir: "auto"}, struckText(item, span)),
        spanMeta(item, index),
      );
    }),
  );
}

/** Support score or evidence mass as a bar and a figure; a span of a method that has neither gets none. */
function measure(span) {
  const [share, meaning] = measureOf(span);
  if (share === null) return el("span", {class: "mass"}, el("span", {}, "–"));
  return el("span", {class: "mass", title: meaning}, shareBar(share, span.support), el("span", {}, share.toFixed(2)));
}

function spanMeta(item, index) {
  const span = item.spans[index];
  const mark = markOf(item, index).mark;
  return el(
    "span",
    {class: "span-meta"},
    el("span", {}, verdict(span), spanFacts(span), " "),
    mark ? el("span", {class: "mark-badge"}, mark) : null,
  );
}

// One answer in two audits: its claims then and now, side by side.

/** A table of claims; nothing where no earlier audit has the answer. Claims of the same words stand in one row. */
function thenAndNow(item) {
  if (!item.before) return null;
  const rows = pairs(item).map(([then, now]) => el("tr", {}, cell(then), cell(now)));
  return el(
    "section",
    {class: "then-and-now", "aria-label": "Then and now"},
    el("p", {class: "label"}, `Then and now: ${item.change}`),
    el("table", {}, el("thead", {}, el("tr", {}, head("Then", item.before), head("Now", item))), el("tbody", {}, rows)),
  );
}

function head(name, {risk, answer_kind: kind}) {
  const facts = [risk === null ? "" : `risk ${percentOf(risk)}`, kind === "answer" ? "" : answerKindName(kind)];
  return el("th", {scope: "col"}, [name, ...facts.filter(Boolean)].join(", "));
}

/** [then, now] of each claim, in the order of today's answer; what is gone stands where it stood. */
function pairs(item) {
  const then = item.before.claims.map(([text, support, score, unmatched]) => ({text, support, score, unmatched}));
  const rows = [];
  let next = 0;
  for (const {index} of claimsOf(item)) {
    const {support, score, unmatched} = item.spans[index];
    const now = {text: spanText(item, item.spans[index]), support, score, unmatched};
    const same = then.findIndex((claim, place) => place >= next && claim.text === now.text);
    if (same < 0) rows.push([null, now]);
    else {
      rows.push(...then.slice(next, same).map((claim) => [claim, null]), [then[same], now]);
      next = same + 1;
    }
  }
  return [...rows, ...then.slice(next).map((claim) => [claim, null])];
}

function cell(claim) {
  if (claim === null) return el("td", {class: "gone"}, "–");
  const {text, support, score, unmatched} = claim;
  const figure = score === null ? "" : ` ${score.toFixed(2)}`;
  const missing = unmatched.length ? `, not in the passages: ${unmatched.join(", ")}` : "";
  return el(
    "td",
    {},
    el("span", {dir: "auto"}, text),
    el(
      "small",
      {},
      el("b", {class: `verdict ${support}`}, `${GLYPHS[support]} ${supportName(support)}`),
      figure,
      missing,
    ),
  );
}
