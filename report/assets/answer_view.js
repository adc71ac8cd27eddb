// One answer: question, answer with its spans, list of spans, passages.

function answerView(item) {
  return [
    crumbs(item, [item.generator, moment(item.at), `risk ${percentOf(item.risk)}`, ...item.extra.map(([name, value]) => `${name}: ${value}`)]),
    item.question === null ? el("p", {class: "warning"}, "The log of this answer is not there as it was audited, or its texts are too long for this page. Shown are its spans and their evidence.") : el("h2", {class: "question", dir: "auto"}, item.question),
    el("div", {class: "columns"}, el("div", {}, answerText(item), spanList(item)), passageCardsOf(item)),
    markBar(item),
  ];
}

function crumbs(item, facts) {
  const parts = facts.filter(Boolean).map((fact) => el("bdi", {}, fact));
  return el("div", {}, el("button", {type: "button", class: "back", onclick: () => go("#answers")}, "← Back to the list"), el("p", {class: "crumbs"}, el("b", {}, el("bdi", {}, item.id ?? `row ${item.row}`)), el("bdi", {}, `${item.file}, row ${item.row}`), parts));
}

function answerText(item) {
  if (item.answer === null) return null;
  const parts = cut(item.answer, answerRanges(item)).map(([part, hits]) => segment(item, part, hits));
  return el("section", {"aria-label": "Answer text"}, el("div", {class: "answer-text", dir: "auto"}, parts));
}

function segment(item, part, hits) {
  const of = (kind) => [...new Set(hits.filter((hit) => hit.kind === kind).map((hit) => hit.span))];
  const spans = of("span");
  const text = of("unmatched").length ? el("s", {class: "unmatched", title: "in no passage with evidence"}, part) : part;
  if (!spans.length && !of("fact").length) return text;
  const inner = innermost(item, spans);
  const support = inner === null ? "" : `seg ${item.spans[inner].support}`;
  return el("span", {class: `part ${support}`, "data-spans": spans.join(" "), "data-facts": of("fact").join(" "), "data-inner": inner}, text);
}

function spanList(item) {
  const rows = item.spans.map((span, index) => el("li", {}, spanRow(item, span, index)));
  return el("section", {class: "spans", "aria-label": "Spans"}, el("p", {class: "label"}, plural(item.spans.length, "span")), el("ol", {}, rows));
}

function spanRow(item, span, index) {
  const mark = markOf(item, index).mark;
  return el("button", {type: "button", class: "span-row", "data-span": index, "aria-pressed": "false"},
    el("span", {class: `glyph ${span.support}`, "aria-hidden": "true"}, GLYPHS[span.support]),
    el("span", {class: "span-text", dir: "auto"}, struckText(item, span)),
    el("span", {class: "mass"}, shareBar(span.mass, span.support), el("span", {}, span.mass.toFixed(2))),
    el("span", {class: "span-meta"}, spanMeta(span), mark ? el("span", {class: "mark-badge"}, mark) : null));
}

function struckText(item, span) {
  const text = spanText(item, span);
  const ranges = span.unmatched.flatMap((value) => occurrences(text, value)).map((range) => [...range, true]);
  return cut(text, ranges).map(([part, hits]) => (hits.length ? el("s", {class: "unmatched"}, part) : part));
}

function spanMeta(span) {
  const best = span.top === null ? "no evidence" : `best passage ${span.top + 1}, margin ${span.margin.toFixed(2)}`;
  const isolated = span.isolated ? ", isolated evidence only" : "";
  return el("span", {}, `${span.support}, ${span.kind}, ${best}${isolated}`, span.unmatched.length ? el("span", {}, ", not in the passages: ", el("bdi", {}, span.unmatched.join(", "))) : null, " ");
}
