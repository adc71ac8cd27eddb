// One answer in two audits: its claims then and now, side by side.

import {answerKindName, claimsOf, supportName} from "./claims.js";
import {el} from "./elements.js";
import {GLYPHS, spanText} from "./page_data.js";
import {percentOf} from "./texts.js";

/** A table of claims; nothing where no earlier audit has the answer. Claims of the same words stand in one row. */
export function thenAndNow(item) {
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
