// The passages of an answer, with the evidence in them.

function passageCardsOf(item) {
  const shown = item.passages.length ? item.passages.map((passage, index) => wholePassage(item, passage, index)) : fragmentPassages(item);
  return el("section", {class: "passages", "aria-label": "Passages"}, shown);
}

function wholePassage(item, passage, index) {
  const head = passageHead(passage.id, index);
  const title = passage.title ? el("h3", {dir: "auto"}, markedText(item, passage.title, evidenceRanges(item, index, true))) : null;
  const text = el("div", {class: "passage-text", dir: "auto"}, markedText(item, passage.text, evidenceRanges(item, index, false)));
  const used = item.spans.some((span) => span.scores[index] > 0);
  return el("section", {class: `passage ${used ? "" : "unused"}`, "data-passage": index, "aria-label": `Passage ${index + 1}`}, head, title, text);
}

function passageHead(id, index) {
  return el("div", {class: "passage-head"}, el("span", {class: "rank"}, `Passage ${index + 1}`), el("bdi", {class: "id"}, id ?? ""), el("span", {class: "score"}));
}

/** The text with its evidence marked; every marked piece can be focused and knows its spans. */
function markedText(item, text, ranges) {
  return cut(text, ranges).map(([part, hits]) => (hits.length ? piece(item, part, hits) : part));
}

function piece(item, part, hits) {
  const spans = [...new Set(hits.map((hit) => hit.span))];
  const names = spans.slice(0, 3).map((index) => shortened(spanText(item, item.spans[index]), 60)).join("; ");
  const node = el("mark", {class: "piece", tabindex: 0, role: "button", "aria-label": `${part.trim() || "white space"}: evidence for ${names}`, "data-spans": spans.join(" ")}, part);
  node.scores = new Map(spans.map((index) => [index, Math.max(...hits.filter((hit) => hit.span === index).map((hit) => hit.score))]));
  return node;
}

/** Where the log cannot be read, the evidence alone. */
function fragmentPassages(item) {
  const count = Math.max(0, ...item.spans.map((span) => span.scores.length));
  return [...Array(count).keys()].map((index) => {
    const found = new Map();
    item.spans.forEach((span, spanIndex) => pieces(span).filter((one) => one.passage === index).forEach((one) => {
      const key = JSON.stringify([one.title, ...one.at]);
      const known = found.get(key) ?? {id: one.id, text: one.text, hits: []};
      known.hits.push({span: spanIndex, score: one.score});
      found.set(key, known);
    }));
    const shown = [...found.values()];
    const parts = shown.map((one) => el("span", {class: "fragment"}, piece(item, one.text, one.hits)));
    return el("section", {class: `passage ${shown.length ? "" : "unused"}`, "data-passage": index, "aria-label": `Passage ${index + 1}`}, passageHead(shown[0]?.id, index), el("div", {class: "passage-text", dir: "auto"}, parts));
  });
}
