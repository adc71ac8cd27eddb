// The claims of one answer, each with the spans within it; below them what is no claim.

import {claimsOf, glyph, measureOf, othersOf, spanFacts, struckText, verdict} from "./claims.js";
import {el, shareBar} from "./elements.js";
import {markOf} from "./marks.js";
import {plural} from "./texts.js";

export function spanList(item) {
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
