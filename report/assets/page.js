// Bundle of report/page_scripts, made by report/vendor/make_bundles.sh; sources sha256 5a5cc215c21403a2d4fcdcd27d037dc4173208742d9c12902abd770ddbbb218f
"use strict";
(() => {
  // elements.js
  var SVG = "http://www.w3.org/2000/svg";
  function el(name, attributes = {}, ...children) {
    return filled(document.createElement(name), attributes, children);
  }
  function svg(name, attributes = {}, ...children) {
    return filled(document.createElementNS(SVG, name), attributes, children);
  }
  function filled(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value === true) node.setAttribute(name, "");
      else if (value !== null && value !== void 0 && value !== false) node.setAttribute(name, String(value));
    }
    node.append(...children.flat().filter((child) => child !== null && child !== void 0));
    return node;
  }
  function byId(id) {
    return document.getElementById(id);
  }
  function shareBar(share, kind = "") {
    const width = `${Math.max(0, Math.min(1, share)) * 100}%`;
    return svg("svg", { "aria-hidden": "true" }, svg("rect", { class: kind, width, height: "100%" }));
  }
  var LONGEST_ID = 40;
  function copyable(id) {
    if (id.length <= LONGEST_ID) return el("bdi", {}, id);
    return [el("bdi", { title: id }, shortId(id)), copyButton(id, `Copy ${id}`)];
  }
  function copyButton(text, name, shown = "copy") {
    const copy = (event) => {
      event.stopPropagation();
      const button = event.currentTarget;
      copyText(typeof text === "function" ? text() : text).then((done) => {
        announce(done ? "Copied" : "The browser did not let the page copy");
        button.textContent = done ? "copied" : "not copied";
        setTimeout(() => button.replaceChildren(shown), 1500);
      });
    };
    return el("button", { type: "button", class: "link copy", "aria-label": name, onclick: copy }, shown);
  }
  async function copyText(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const field = el("textarea", { class: "unseen", "aria-hidden": "true" });
      field.value = text;
      document.body.append(field);
      field.select();
      const done = document.execCommand("copy");
      field.remove();
      return done;
    }
  }
  function shortId(id, size = LONGEST_ID) {
    const points = [...id];
    if (points.length <= size) return id;
    const end = Math.floor((size - 1) / 2);
    return `${points.slice(0, size - 1 - end).join("")}…${points.slice(-end).join("")}`;
  }
  function announce(text) {
    byId("announcer").textContent = text;
  }

  // texts.js
  var counted = /* @__PURE__ */ new Map();
  function positions(text) {
    if (!counted.has(text)) counted.set(text, /[\ud800-\udfff]/.test(text) ? unitPositions(text) : null);
    return counted.get(text);
  }
  function unitPositions(text) {
    const units = [];
    let unit = 0;
    for (const point2 of text) {
      units.push(unit);
      unit += point2.length;
    }
    units.push(unit);
    return units;
  }
  function slice(text, start, end) {
    const units = positions(text);
    return units === null ? text.slice(start, end) : text.slice(units[start], units[end]);
  }
  function point(text, unit) {
    const units = positions(text);
    if (units === null) return unit;
    let [low, high] = [0, units.length - 1];
    while (low < high) {
      const middle = low + high >> 1;
      if (units[middle] < unit) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  function length(text) {
    const units = positions(text);
    return units === null ? text.length : units.length - 1;
  }
  function occurrences(text, part) {
    const found = [];
    const size = length(part);
    for (let unit = text.indexOf(part); part && unit >= 0; unit = text.indexOf(part, unit + part.length)) {
      const start = length(text.slice(0, unit));
      found.push([start, start + size]);
    }
    return found;
  }
  var NOTHING = "(none)";
  var number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  var percent = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });
  function plural(count, one, many = `${one}s`) {
    return `${number.format(count)} ${count === 1 ? one : many}`;
  }
  function moment(text) {
    return text ? `${text.slice(0, 10)} ${text.slice(11, 16)} UTC` : "";
  }
  function spaced(word) {
    return word.replaceAll("_", " ");
  }
  function shortened(text, size) {
    return length(text) > size ? `${slice(text, 0, size - 1)}…` : text;
  }
  function percentOf(risk) {
    return String(Math.round(risk * 100));
  }
  var MEANINGS = {
    claim: "A statement of the answer. It has one verdict, and names and numbers within it take that verdict.",
    supported: "The passages say what the claim says.",
    weak: "The passages may say it; have a look. The mark “right” says that it lacks support.",
    unsupported: "The passages do not say it, or say something else. An answer with such a claim is flagged.",
    reason: "Why a claim is unsupported: not in passages; the evidence has another value, entity (person, place, thing) or time; one of the two is negated; or it is reversed, as in who paid whom.",
    how: "How a claim is supported: quoted word by word, paraphrased in other words, or combined from several sentences.",
    "no claim": "Headings, questions, words about the answer itself: there is nothing to support.",
    "not judged": "Another language, code or a table, which cannot be judged here.",
    "not calibrated": "There are no thresholds for this model yet, so claims have no verdict.",
    "answer risk": "How likely the answer has an unsupported claim, from 0 to 100. The foot of the overview says how it was found.",
    "support score": "A calibrated probability that the passages support the claim, from 0 to 1.",
    "evidence mass": "The share of the claim's attention that lies on evidence, from 0 to 1.",
    margin: "How far the best passage leads: its share of all scores minus the share of the second.",
    "dead letter": "A row of the log that could not be audited; it comes with the reason."
  };
  function term(word, text = word) {
    return el("abbr", { title: MEANINGS[word] }, text);
  }
  function fillWords() {
    byId("words").append(
      ...Object.entries(MEANINGS).map(([word, meaning]) => el("div", {}, el("dt", {}, word), el("dd", {}, meaning)))
    );
  }

  // page_data.js
  function embedded(name) {
    return JSON.parse(byId(`data-${name}`).textContent);
  }
  var audit = embedded("audit");
  var plotData = embedded("plots");
  var SUPPORTS = ["supported", "weak", "unsupported"];
  var GLYPHS = {
    supported: "●",
    weak: "◐",
    unsupported: "○",
    not_calibrated: "◌",
    no_claim: "–",
    not_judged: "?"
  };
  var items = [
    ...embedded("answers").map((answer) => ({ kind: "answer", ...answer })),
    ...embedded("dead-letters").map((deadLetter) => ({
      kind: "deadLetter",
      id: deadLetter.record_id,
      file: deadLetter.source_file,
      row: deadLetter.source_row,
      ...deadLetter
    }))
  ].map((item, index) => ({ ...item, index, ...item.kind === "answer" ? answerFacts(item) : deadLetterFacts(item) }));
  var firstOfId = /* @__PURE__ */ new Map();
  for (const item of items) if (item.id !== null && !firstOfId.has(item.id)) firstOfId.set(item.id, item);
  function itemOfId(id) {
    return firstOfId.get(id);
  }
  function riskChange(item) {
    const before = item.before?.risk ?? null;
    return before === null || (item.risk ?? null) === null ? 0 : item.risk - before;
  }
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
    return { counts, reasons, unmatched };
  }
  function deadLetterFacts(deadLetter) {
    return {
      counts: {},
      reasons: /* @__PURE__ */ new Set([deadLetter.reason]),
      unmatched: [],
      spans: []
    };
  }
  function spanText(item, span) {
    return span.text ?? slice(item.answer, ...span.at);
  }
  function pieces(span) {
    span.pieces ??= span.evidence.map(([passage, title, start, end, score, id, text]) => ({
      passage,
      title: title === 1,
      at: [start, end],
      score,
      id,
      text
    }));
    return span.pieces;
  }
  function haystack(item) {
    if (item.haystack === void 0) {
      const passages = (item.passages ?? []).flatMap((passage) => [passage.id, passage.title, passage.text]);
      const spans = item.spans.flatMap((span) => [
        span.text,
        ...item.answer === null ? pieces(span).map((piece2) => piece2.text) : []
      ]);
      const texts = [item.id, item.question, item.answer, item.message, ...passages, ...spans];
      item.haystack = texts.filter(Boolean).join("\n").toLowerCase();
    }
    return item.haystack;
  }
  var selection = { item: null, span: null };

  // segments.js
  function cut(text, ranges) {
    const size = length(text);
    const inside = ranges.filter(([start, end]) => start >= 0 && start < end && end <= size);
    const ends = [.../* @__PURE__ */ new Set([0, size, ...inside.flatMap((range) => range.slice(0, 2))])].sort((a, b) => a - b);
    return ends.slice(1).map((end, index) => {
      const start = ends[index];
      return [
        slice(text, start, end),
        inside.filter(([from, to]) => from <= start && end <= to).map(([, , value]) => value)
      ];
    });
  }
  function suspects(span) {
    return span.words ?? [];
  }
  function answerRanges(item) {
    return item.spans.flatMap((span, index) => [
      [...span.at, { kind: "span", span: index }],
      ...span.fact.map((range) => [...range, { kind: "fact", span: index }]),
      ...unmatchedRanges(item, span).map((range) => [...range, { kind: "unmatched", span: index }]),
      ...suspects(span).map((range) => [...range, { kind: "suspect", span: index }])
    ]);
  }
  function unmatchedRanges(item, span) {
    const text = spanText(item, span);
    const found = span.unmatched.flatMap((value) => occurrences(text, value));
    return found.map(([start, end]) => [start + span.at[0], end + span.at[0]]);
  }
  function evidenceRanges(item, passage, inTitle) {
    return item.spans.flatMap(
      (span, index) => pieces(span).filter((piece2) => piece2.passage === passage && piece2.title === inTitle).map((piece2) => [...piece2.at, { span: index, score: piece2.score }])
    );
  }
  function innermost(item, spans) {
    const size = (index) => item.spans[index].at[1] - item.spans[index].at[0];
    return spans.reduce((best, index) => best === null || size(index) < size(best) ? index : best, null);
  }
  var INLINE = /(?<code>`+)(?<c>[^`\n]+)\k<code>|(?<strong>\*\*|(?<!\w)__)(?=\S)(?<s>[^\n]{0,500}?\S)\k<strong>|(?<em>(?<![*\w])\*(?![*\s])|(?<!\w)_(?![_\s]))(?<e>[^*_\n]{0,500}[^*_\s])\k<em>(?![\w*])/g;
  var LINE_START = /^[ \t]*(?:(?<heading>#{1,6}[ \t]+)|(?<bullet>[-*+][ \t]+))/;
  var FENCE = /^[ \t]*(?:```|~~~)/;
  var MOST_RANGES = 3e3;
  var DELIMITERS = /^\|?:?-+:?(?:\|:?-+:?)*\|?$/;
  var BAR = /[ \t]{0,99}(?<!\\)\|[ \t]*|\n$/g;
  function markdownRanges(text) {
    const found = [];
    const add = (start, end, markdown, more = {}) => {
      if (start < end) found.push([start, end, { markdown, ...more }]);
    };
    const lines = [...text.matchAll(/[^\n]*(?:\n|$)/g)].filter(([line]) => line);
    const isRow = (index) => lines[index]?.[0].includes("|");
    const isRuled = (index) => isRow(index) && DELIMITERS.test(lines[index][0].replace(/\s+/g, ""));
    let fenced = false;
    let table = null;
    for (const [index, { 0: line, index: start }] of lines.entries()) {
      const fence = FENCE.test(line);
      if (fence) fenced = !fenced;
      if (fenced || fence) {
        table = null;
        add(start, start + line.length, fence ? "syntax" : "code");
        continue;
      }
      if (table && !isRow(index)) table = null;
      if (!table && isRow(index) && !isRuled(index) && isRuled(index + 1)) table = { rows: 0, head: index };
      if (table && isRuled(index)) add(start, start + line.length, "syntax");
      if (table) cells(line, start, table, isRuled(index), add);
      else lineStart(line, start, add);
      inline(line, start, add);
    }
    if (found.length > MOST_RANGES) return [];
    return found.map(([start, end, what]) => [point(text, start), point(text, end), what]);
  }
  function cells(line, start, table, ruled, add) {
    const bars = [...line.matchAll(BAR)];
    const between = (bar) => line.slice(0, bar.index).trim() && line.slice(bar.index + bar[0].length).trim();
    const ends = ruled ? [] : bars.filter(between);
    if (!ruled) table.rows += 1;
    for (const bar of bars) add(start + bar.index, start + bar.index + bar[0].length, "syntax");
    let from = start;
    for (const [column, end] of [
      ...ends.map((bar) => start + bar.index + bar[0].length),
      start + line.length
    ].entries()) {
      add(from, end, "cell", { table, row: table.rows - 1, column: ruled ? null : column });
      from = end;
    }
  }
  function lineStart(line, start, add) {
    const { heading, bullet } = LINE_START.exec(line)?.groups ?? {};
    const indent = start + line.search(/\S|$/);
    if (heading) {
      add(indent, indent + heading.length, "syntax");
      add(indent + heading.length, start + line.length, "heading");
    }
    if (bullet) add(indent, indent + bullet.length, "bullet");
  }
  function inline(line, start, add) {
    for (const { index, groups, 0: whole } of line.matchAll(INLINE)) {
      const tag = ["code", "strong", "em"].find((name) => groups[name]);
      const mark = groups[tag].length;
      const [from, end] = [start + index, start + index + whole.length];
      add(from, from + mark, "syntax");
      add(from + mark, end - mark, tag);
      add(end - mark, end, "syntax");
      if (tag === "strong") inline(line.slice(index + mark, index + whole.length - mark), from + mark, add);
    }
  }
  function styled(node, hits) {
    const of = new Set(hits.map((hit) => hit.markdown));
    if (of.has("syntax")) return el("span", { class: "syntax" }, node);
    if (of.has("bullet")) return el("span", { class: "bullet" }, el("span", { class: "syntax" }, node));
    let shown = node;
    for (const tag of ["em", "strong", "code"]) if (of.has(tag)) shown = el(tag, {}, shown);
    return of.has("heading") ? el("strong", { class: "heading" }, shown) : shown;
  }
  function place(box, node, hits) {
    const cell2 = hits.find((hit) => hit.markdown === "cell");
    if (!cell2) return box.append(node);
    const { table, row: row2, column } = cell2;
    table.node ??= el("table");
    if (!table.node.parentNode) box.append(table.node);
    while (table.node.rows.length <= row2) table.node.append(el("tr", {}));
    const line = table.node.rows[row2];
    while (column !== null && line.cells.length <= column) line.append(el(row2 ? "td" : "th", {}));
    return line.cells[column ?? line.cells.length - 1].append(node);
  }

  // claims.js
  var NAMES = { no_claim: "no claim", not_judged: "not judged", not_calibrated: "not calibrated" };
  var ANSWER_KINDS = {
    answer: "answer",
    partial: "refuses in part",
    refusal: "refusal",
    no_claim: "no claim",
    not_judged: "not judged"
  };
  var SCORE_WORDS = [
    [0.9, "very likely"],
    [0.7, "likely"],
    [0.4, "unclear"],
    [0.15, "unlikely"],
    [0, "very unlikely"]
  ];
  function claimsOf(item) {
    const claims = item.spans.flatMap((span, index) => span.claim === index ? [{ index, parts: [] }] : []);
    const byIndex = new Map(claims.map((claim) => [claim.index, claim]));
    for (const [index, span] of item.spans.entries())
      if (span.claim !== index) byIndex.get(span.claim)?.parts.push(index);
    for (const claim of claims) claim.parts.sort(inOrder(item));
    return claims.sort((a, b) => inOrder(item)(a.index, b.index));
  }
  function othersOf(item) {
    return [...item.spans.keys()].filter((index) => item.spans[index].claim === null).sort(inOrder(item));
  }
  function inOrder(item) {
    return (a, b) => item.spans[a].at[0] - item.spans[b].at[0] || item.spans[b].at[1] - item.spans[a].at[1];
  }
  function supportName(support) {
    return NAMES[support] ?? support;
  }
  function answerKindName(kind) {
    return ANSWER_KINDS[kind] ?? kind;
  }
  function lacksSupport(span) {
    if (span.support === "supported") return false;
    return ["weak", "unsupported"].includes(span.support) ? true : null;
  }
  function told(before, value, name) {
    return value === null ? [] : [before, term(name, spaced(value))];
  }
  function verdict(span) {
    const none = span.claim === null && span.claim_kind !== "claim" ? `: ${span.claim_kind}` : "";
    const why = told(": ", span.reason, "reason");
    return el("b", { class: `verdict ${span.support}` }, supportName(span.support), none, why);
  }
  function scoreWord(score) {
    return SCORE_WORDS.find(([least]) => score >= least)[1];
  }
  function measureOf(span) {
    const [share, name] = span.score === null ? [span.mass, "evidence mass"] : [span.score, "support score"];
    return [share, `${name}: ${MEANINGS[name]}`];
  }
  function spanFacts(span) {
    const facts = [span.kind];
    if (span.score !== null) facts.unshift(`support ${scoreWord(span.score)} (${span.score.toFixed(2)})`);
    if (span.top === null) facts.push("no evidence");
    else facts.push([`best passage ${span.top + 1}, `, term("margin", `margin ${span.margin.toFixed(2)}`)]);
    if (span.isolated) facts.push("isolated evidence only");
    if (span.unmatched.length) facts.push(["not in the passages: ", el("bdi", {}, span.unmatched.join(", "))]);
    const instead = span.expected === null ? [] : [" — evidence says: ", el("bdi", {}, span.expected)];
    return [...instead, ...told(", ", span.how, "how"), ...facts.flatMap((fact) => [", ", fact]).flat()];
  }
  function struckText(item, span) {
    const text = spanText(item, span);
    const unmatched = span.unmatched.flatMap((value) => occurrences(text, value));
    const against = suspects(span).map((range) => range.map((place2) => place2 - span.at[0]));
    const ranges = [
      ...unmatched.map((range) => [...range, "unmatched"]),
      ...against.map((range) => [...range, "suspect"]),
      ...syntaxWithin(item, span, text)
    ];
    return cut(text, ranges).filter(([, hits]) => !hits.includes("syntax")).map(([part, hits]) => marked(part, hits.includes("unmatched"), hits.includes("suspect")));
  }
  function syntaxWithin(item, span, text) {
    if (item.answer === null) return [];
    item.syntax ??= markdownRanges(item.answer).filter(([, , { markdown }]) => ["syntax", "bullet"].includes(markdown));
    return item.syntax.map(([start, end]) => [Math.max(0, start - span.at[0]), Math.min(length(text), end - span.at[0]), "syntax"]).filter(([start, end]) => start < end);
  }
  function marked(part, unmatched, suspect) {
    if (unmatched) return el("s", { class: "unmatched", title: "in no passage with evidence" }, part);
    return suspect ? el("em", { class: "suspect", title: "speaks most against this claim" }, part) : part;
  }
  function glyph(span) {
    return el("span", { class: `glyph ${span.support}`, "aria-hidden": "true" }, GLYPHS[span.support]);
  }

  // marks.js
  var MARKS = ["right", "wrong", "unsure"];
  var STORE = `attribeam-marks-${audit.key}`;
  var REVIEWER = "attribeam-reviewer";
  var marks = new Map(Object.entries(storedMarks()));
  function storedMarks() {
    try {
      return JSON.parse(localStorage.getItem(STORE) ?? "{}");
    } catch {
      return {};
    }
  }
  function markKey(item, spanIndex) {
    return JSON.stringify([item.file, item.row, spanIndex]);
  }
  function markOf(item, spanIndex) {
    return marks.get(markKey(item, spanIndex)) ?? { mark: "", note: "", at: "", by: "" };
  }
  function setMark(item, spanIndex, change) {
    const key = markKey(item, spanIndex);
    const next = { ...markOf(item, spanIndex), ...change, at: (/* @__PURE__ */ new Date()).toISOString(), by: reviewer() };
    if (next.mark || next.note) marks.set(key, next);
    else marks.delete(key);
    keepMarks();
  }
  function takeMark(item, spanIndex, found) {
    const key = markKey(item, spanIndex);
    if (marks.has(key) && marks.get(key).at >= found.at) return false;
    marks.set(key, found);
    return true;
  }
  function clearMarks() {
    marks.clear();
    keepMarks();
  }
  function labelOf(item, spanIndex, mark) {
    if (!["right", "wrong"].includes(mark)) return null;
    const flagged = spanIndex === null ? answerFlagged(item) : claimLacks(item, spanIndex);
    if (flagged === void 0) return null;
    return mark === "right" === (flagged === true) ? "unsupported" : "supported";
  }
  function answerFlagged(item) {
    const { unsupported = 0, weak = 0, supported = 0, not_calibrated: open = 0 } = item.counts;
    if (item.kind !== "answer" || item.answer_kind === "refusal") return void 0;
    if (unsupported + weak + supported) return unsupported > 0;
    return open ? null : void 0;
  }
  function claimLacks(item, spanIndex) {
    const span = item.spans[spanIndex];
    if (span.claim === null) return void 0;
    return lacksSupport(span);
  }
  function itemMark(item) {
    const all = [null, ...item.spans.keys()].map((spanIndex) => markOf(item, spanIndex));
    const own = all[0].mark || all.map((one) => one.mark).find(Boolean);
    return own || (all.some((one) => one.note) ? "noted" : "");
  }
  function reviewer() {
    return byId("reviewer").value.trim();
  }
  function tellReviewer(name) {
    byId("reviewer").value = name;
    keepReviewer();
  }
  function showReviewer() {
    try {
      byId("reviewer").value = localStorage.getItem(REVIEWER) ?? "";
    } catch {
    }
  }
  function keepReviewer() {
    try {
      localStorage.setItem(REVIEWER, reviewer());
    } catch {
    }
  }
  function keepMarks() {
    try {
      localStorage.setItem(STORE, JSON.stringify(Object.fromEntries(marks)));
    } catch {
      byId("mark-store").textContent = "This browser keeps no marks for this page: save them to a file before you close it.";
    }
    showMarkCount();
  }
  function showMarkCount() {
    byId("mark-count").textContent = number.format(marks.size);
    const marked2 = items.filter((item) => itemMark(item)).length;
    byId("mark-progress").max = Math.max(1, items.length);
    byId("mark-progress").value = marked2;
    byId("mark-progress-text").textContent = `${plural(marked2, "row")} of ${number.format(items.length)} on this page marked; ${plural(marks.size, "mark")} in all.`;
    for (const button of document.querySelectorAll("[data-needs-marks]")) button.disabled = !marks.size;
  }

  // filters.js
  var FILTERS = ["answer", "support", "kind", "reason", "generator", "mark", "change"];
  var ORDERS = {
    risk: "risk",
    newest: "newest",
    id: "record id",
    random: "random",
    ...audit.compared ? { change: "change of risk" } : {}
  };
  var NO_GENERATOR = "\0none";
  var MOST_OPTIONS = 50;
  var columnFields = /* @__PURE__ */ new Map();
  function fillFilters(changed) {
    const answers = items.filter((item) => item.kind === "answer");
    const present = new Set(answers.flatMap((item) => item.spans.map((span) => span.support)));
    options("answer", distinct(answers.map((item) => item.answer_kind)), answerKindName);
    options(
      "support",
      [
        ...SUPPORTS,
        ...Object.keys(GLYPHS).slice(SUPPORTS.length).filter((one) => present.has(one))
      ],
      supportName
    );
    options("kind", distinct(answers.flatMap((item) => item.spans.map((span) => span.kind))));
    fillReasons(answers);
    const generators = distinct(answers.map((item) => item.generator ?? NO_GENERATOR));
    options("generator", generators, (name) => name === NO_GENERATOR ? NOTHING : name);
    options("mark", ["none", ...MARKS, "noted"]);
    options("change", distinct(answers.map((item) => item.change ?? "")).filter(Boolean));
    fillColumns(answers);
    byId("filter-order").append(...Object.entries(ORDERS).map(([value, name]) => el("option", { value }, name)));
    byId("filter-text").addEventListener("input", changed);
    for (const name of [...FILTERS, "order"]) byId(`filter-${name}`).addEventListener("change", changed);
    for (const field of columnFields.values()) field.addEventListener("input", changed);
  }
  function fillReasons(answers) {
    const why = distinct(answers.flatMap((item) => [...item.reasons]));
    const deadLetters = distinct(items.filter((item) => item.kind === "deadLetter").map((item) => item.reason));
    options("reason", []);
    byId("filter-reason").append(
      ...[
        ["Answers", why],
        ["Not audited", deadLetters]
      ].filter(([, names]) => names.length).map(
        ([label, names]) => el(
          "optgroup",
          { label },
          names.map((name) => el("option", { value: name }, name))
        )
      )
    );
  }
  function fillColumns(answers) {
    const names = distinct(answers.flatMap((item) => item.extra.map(([name]) => name)));
    for (const name of names) {
      const values = distinct(answers.map((item) => columnValue(item, name)));
      columnFields.set(name, values.length > MOST_OPTIONS ? el("input", { type: "search" }) : el("select"));
      if (values.length <= MOST_OPTIONS) columnFields.get(name).append(...choices(values, columnLabel));
      columnFields.get(name).dataset.column = name;
    }
    byId("column-filters").hidden = !names.length;
    byId("column-fields").append(
      ...[...columnFields].map(([name, field]) => el("label", { title: name }, el("bdi", {}, shortened(name, 24)), field))
    );
  }
  function columnValue(item, name) {
    return item.extra.find(([one]) => one === name)?.[1] ?? NO_GENERATOR;
  }
  function columnLabel(value) {
    return value === NO_GENERATOR ? NOTHING : shortened(value, 60);
  }
  function options(name, values, label = (value) => value) {
    byId(`filter-${name}`).append(...choices(values, label));
  }
  function choices(values, label) {
    return [el("option", { value: "" }, "all"), ...values.map((value) => el("option", { value }, label(value)))];
  }
  function distinct(values) {
    return [...new Set(values)].sort();
  }
  function chosenFilters() {
    return Object.fromEntries(FILTERS.map((name) => [name, byId(`filter-${name}`).value]));
  }
  function chosenColumns() {
    return [...columnFields].filter(([, field]) => field.value !== "");
  }
  function filteredItems() {
    const chosen = chosenFilters();
    const columns = chosenColumns();
    const words = byId("filter-text").value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = items.filter(
      (item) => passes(item, chosen) && columns.every(([name, field]) => passesColumn(item, name, field)) && words.every((word) => haystack(item).includes(word))
    );
    return found.sort(order(byId("filter-order").value));
  }
  function passes(item, { answer, support, kind, reason, generator, mark, change }) {
    if (change && item.change !== change) return false;
    if (answer && item.answer_kind !== answer) return false;
    if ((support || kind) && !item.spans.some((span) => (!support || span.support === support) && (!kind || span.kind === kind)))
      return false;
    if (reason && !item.reasons.has(reason)) return false;
    if (generator && (item.kind !== "answer" || (item.generator ?? NO_GENERATOR) !== generator)) return false;
    return !mark || (itemMark(item) || "none") === mark;
  }
  function passesColumn(item, name, field) {
    if (item.kind !== "answer") return false;
    const value = columnValue(item, name);
    if (field.localName === "select") return value === field.value;
    return value !== NO_GENERATOR && value.toLowerCase().includes(field.value.toLowerCase());
  }
  function order(name) {
    const keys = {
      risk: () => 0,
      newest: (a, b) => compare(b.at ?? "", a.at ?? ""),
      id: (a, b) => compare(a.id ?? "", b.id ?? ""),
      random: (a, b) => shuffled(a) - shuffled(b),
      change: (a, b) => Math.abs(riskChange(b)) - Math.abs(riskChange(a))
    };
    return (a, b) => compare(a.kind, b.kind) || keys[name](a, b) || a.index - b.index;
  }
  function shuffled(item) {
    let hash = 2166136261;
    for (const letter of item.id ?? String(item.row)) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619);
    hash = Math.imul(hash ^ hash >>> 15, 2246822507);
    return (hash ^ hash >>> 13) >>> 0;
  }
  function compare(a, b) {
    return a < b ? -1 : a > b ? 1 : 0;
  }
  function isRanked() {
    return byId("filter-order").value === "risk";
  }
  function anyFilter() {
    return byId("filter-text").value !== "" || Object.values(chosenFilters()).some(Boolean) || chosenColumns().length > 0;
  }
  function resetFilters() {
    byId("filter-text").value = "";
    for (const name of FILTERS) byId(`filter-${name}`).value = "";
    for (const field of columnFields.values()) field.value = "";
  }
  function choose(field, value) {
    if (field.localName === "select" && ![...field.options].some((option) => option.value === value))
      field.append(el("option", { value }, value));
    field.value = value;
  }
  function chooseColumn(name, value) {
    const field = columnFields.get(name);
    if (!field) return;
    choose(field, value ?? NO_GENERATOR);
    byId("column-filters").open = true;
  }

  // worklist.js
  var PAGE = 60;
  var LISTED_ID = 22;
  var listed = [];
  var rowsMade = 0;
  function updateWorklist() {
    listed = filteredItems();
    rowsMade = 0;
    byId("worklist").replaceChildren();
    moreRows();
    byId("worklist").scrollTop = 0;
    const all = items.filter((item) => item.kind === "answer").length;
    const deadLetters = listed.filter((item) => item.kind === "deadLetter").length;
    const dead = deadLetters ? `, ${plural(deadLetters, "dead letter")}` : "";
    byId("found").textContent = `${number.format(listed.length - deadLetters)} of ${plural(all, "answer")}${dead}`;
    byId("filter-reset").hidden = !anyFilter();
    if (!listed.length) byId("worklist").append(el("li", { class: "empty" }, "Nothing passes these filters."));
    showCurrent();
  }
  function moreRows(until = rowsMade + PAGE) {
    const next = listed.slice(rowsMade, until);
    for (const [place2, item] of next.entries()) {
      const heading = isRanked() ? groupOf(item) : "";
      if (heading && heading !== groupOf(listed[rowsMade + place2 - 1]))
        byId("worklist").append(el("li", { class: "group" }, heading));
      byId("worklist").append(el("li", {}, row(item), idButton(item)));
    }
    rowsMade += next.length;
  }
  function groupOf(item) {
    if (item?.kind === "deadLetter") return "Dead letters: rows that were not audited";
    if (item?.risk === null) return "Not judged";
    return item?.answer_kind === "refusal" ? "Refusals" : "";
  }
  function row(item) {
    const link = el("a", { href: address(item), id: `row-${item.index}` });
    link.append(...item.kind === "answer" ? answerRow(item) : deadLetterRow(item));
    return link;
  }
  function address(item) {
    return itemOfId(item.id) === item ? `#answer=${encodeURIComponent(item.id)}` : `#answers/${item.index + 1}`;
  }
  function idButton(item) {
    return item.id === null || [...item.id].length <= LISTED_ID ? null : copyButton(item.id, `Copy ${item.id}`);
  }
  function answerRow(item) {
    const question2 = item.question ?? spanText(item, item.spans[0]);
    return [
      riskOf(item),
      el("span", { class: "item-question", dir: "auto" }, question2 || "(no question)"),
      el(
        "span",
        { class: "item-meta" },
        el("bdi", { title: item.id }, shortId(item.id, LISTED_ID)),
        ...whyTags(item),
        ...changeTags(item),
        ...markTags(item)
      )
    ];
  }
  function changeTags(item) {
    if (!item.change || item.change === "about the same") return [];
    return [el("span", { class: "tag kind" }, item.before ? `${item.change}, ${thenRisk(item)}` : item.change)];
  }
  function thenRisk(item) {
    return item.before.risk === null ? "was not judged" : `risk was ${percentOf(item.before.risk)}`;
  }
  function riskOf(item) {
    if (item.risk === null) return el("span", { class: "risk", title: "This answer cannot be judged." }, "–");
    if (item.answer_kind === "refusal") return el("span", { class: "risk" }, el("small", {}, "refusal"));
    return el(
      "span",
      { class: "risk", title: `Answer risk: ${MEANINGS["answer risk"]}` },
      percentOf(item.risk),
      el("small", {}, "risk")
    );
  }
  function deadLetterRow(item) {
    return [
      el("span", { class: "risk", "aria-hidden": "true" }, "✕"),
      el(
        "span",
        { class: "item-question", dir: "auto", title: item.id ?? "" },
        item.id === null ? `row ${item.row}` : shortId(item.id, LISTED_ID)
      ),
      el("span", { class: "item-meta" }, el("span", { class: "tag" }, `not audited: ${item.reason}`), ...markTags(item))
    ];
  }
  function whyTags(item) {
    const counts = ["unsupported", "weak", "not_calibrated"].filter((support) => item.counts[support]);
    const tags = counts.map(
      (support) => el("span", { class: `tag ${support}` }, `${GLYPHS[support]} ${item.counts[support]} ${supportName(support)}`)
    );
    if (item.unmatched.length) tags.push(el("bdi", { class: "struck-tag" }, shortened(item.unmatched[0], 24)));
    if (!tags.length && item.counts.supported)
      tags.push(el("span", { class: "tag supported" }, `${GLYPHS.supported} all supported`));
    return [...kindTags(item), ...tags];
  }
  function kindTags(item) {
    const reasons = item.not_judged.map((reason) => `not judged: ${reason}`);
    const kind = ["answer", "not_judged"].includes(item.answer_kind) ? [] : [answerKindName(item.answer_kind)];
    return [...kind, ...reasons].map((text) => el("span", { class: "tag kind" }, text));
  }
  function markTags(item) {
    const mark = itemMark(item);
    return mark ? [el("span", { class: "mark-badge" }, mark)] : [];
  }
  function refreshRow(item) {
    const old = byId(`row-${item.index}`);
    if (!old) return;
    const next = row(item);
    if (old.hasAttribute("aria-current")) next.setAttribute("aria-current", "true");
    const focused = document.activeElement === old;
    old.replaceWith(next);
    if (focused) next.focus();
  }
  function showCurrent() {
    byId("worklist").querySelector("[aria-current]")?.removeAttribute("aria-current");
    const place2 = listed.indexOf(selection.item);
    if (place2 < 0) return;
    if (place2 >= rowsMade) moreRows(place2 + PAGE);
    const open = byId(`row-${selection.item.index}`);
    open.setAttribute("aria-current", "true");
    open.scrollIntoView({ block: "nearest" });
  }
  function neighbour(step2) {
    const place2 = listed.indexOf(selection.item);
    return place2 < 0 ? listed[0] ?? null : listed[place2 + step2] ?? null;
  }
  function watchList() {
    const scrolled = (box) => box.scrollTop + box.clientHeight > box.scrollHeight - 800 && moreRows();
    byId("worklist").addEventListener("scroll", (event) => scrolled(event.target));
    addEventListener("scroll", () => byId("worklist").clientHeight && scrolled(document.scrollingElement));
  }
  function showFirst() {
    const first = items.filter((item) => item.kind === "answer" && item.risk > 0 && item.worst !== null).slice(0, 5);
    byId("first-answers").append(...first.map((item) => el("li", {}, firstLink(item))));
    const changed = items.filter((item) => item.before && item.worst !== null && item.change !== "about the same").sort((a, b) => Math.abs(riskChange(b)) - Math.abs(riskChange(a))).slice(0, 10);
    byId("changed-answers")?.append(...changed.map((item) => el("li", {}, firstLink(item, changeTags(item)))));
  }
  function firstLink(item, tags = null) {
    const claim = item.spans[item.worst];
    const missing = claim.unmatched.filter((value) => !spanText(item, claim).includes(value));
    return el(
      "a",
      { href: address(item) },
      riskOf(item),
      el("span", { class: "what", dir: "auto" }, struckText(item, claim)),
      el("span", { class: "asked", dir: "auto" }, item.question ?? item.id),
      el("span", { class: "why item-meta" }, ...tags ?? whyTags({ ...item, unmatched: missing }))
    );
  }

  // mark_bar.js
  var MARK_KEYS = { right: "r", wrong: "w", unsure: "u" };
  var SUPPORTED = "it is supported";
  var LACKING = "it lacks support";
  var ALL_SUPPORTED = "all is supported";
  var HAS_LACKING = "something lacks support";
  function markBar() {
    const buttons = MARKS.map(
      (mark) => el("button", {
        type: "button",
        "data-mark": mark,
        "aria-pressed": "false",
        "aria-keyshortcuts": MARK_KEYS[mark],
        onclick: () => toggleMark(mark)
      })
    );
    const note = el("input", {
      type: "text",
      id: "note",
      placeholder: "Note",
      "aria-label": "Note",
      "aria-keyshortcuts": "n",
      oninput: (event) => noted(event.target.value)
    });
    const name = el("input", {
      type: "text",
      id: "ask-reviewer",
      placeholder: "Your name, asked once",
      "aria-label": "Your name, saved with your marks",
      autocomplete: "name",
      onchange: (event) => {
        tellReviewer(event.target.value);
        showMarkBar();
      }
    });
    return el(
      "div",
      { class: "mark-bar", role: "group", "aria-label": "Mark" },
      el("p", { class: "of" }, el("bdi", { id: "mark-of" }), el("span", { id: "mark-verdict" })),
      buttons,
      note,
      name
    );
  }
  function showMarkBar() {
    const { mark, note } = markOf(selection.item, selection.span);
    const { what, verdict: verdict2, names, meanings } = question(selection.item, selection.span);
    byId("mark-of").textContent = what;
    byId("mark-verdict").textContent = verdict2;
    byId("note").value = note;
    byId("ask-reviewer").hidden = reviewer() !== "";
    for (const button of byId("detail").querySelectorAll("[data-mark]")) {
      const own = button.dataset.mark;
      button.setAttribute("aria-pressed", String(own === mark));
      const meaning = meanings[own] ? el("small", {}, meanings[own]) : "";
      button.replaceChildren(names[own], meaning, el("kbd", { "aria-hidden": "true" }, MARK_KEYS[own]));
    }
  }
  function question(item, spanIndex) {
    const ofAnswer = spanIndex === null;
    const flagged = ofAnswer ? answerFlagged(item) : claimLacks(item, spanIndex);
    const [fine, bad] = ofAnswer ? [ALL_SUPPORTED, HAS_LACKING] : [SUPPORTED, LACKING];
    const names = { right: "Right", wrong: "Wrong", unsure: "Unsure" };
    const what = ofAnswer ? item.kind === "deadLetter" ? "This row" : "This answer" : `“${shortened(spanText(item, item.spans[spanIndex]), 40)}”`;
    if (flagged === void 0)
      return {
        what,
        verdict: "has no verdict; mark what the page says of it",
        names,
        meanings: {}
      };
    if (flagged === null)
      return {
        what,
        verdict: "has no verdict yet. Is it supported?",
        names: { right: "Supported", wrong: "Unsupported", unsure: "Unsure" },
        meanings: { right: fine, wrong: bad }
      };
    return {
      what,
      verdict: `${verdictWords(item, spanIndex, flagged)}. Is that right?`,
      names,
      meanings: flagged ? { right: bad, wrong: fine } : { right: fine, wrong: bad }
    };
  }
  function verdictWords(item, spanIndex, flagged) {
    if (spanIndex !== null) return `is called ${supportName(item.spans[spanIndex].support)}`;
    return flagged ? "is said to have an unsupported claim" : "is said to have no unsupported claim";
  }
  function toggleMark(mark) {
    if (!selection.item) return;
    const next = markOf(selection.item, selection.span).mark === mark ? "" : mark;
    setMark(selection.item, selection.span, { mark: next });
    showMarkBar();
    refreshRow(selection.item);
    announce(next ? `Marked as ${next}` : "Mark taken away");
    if (selection.span === null) return;
    refreshSpanBadge();
    if (next) byId("detail").dispatchEvent(new Event("marked"));
  }
  function noted(note) {
    setMark(selection.item, selection.span, { note });
    refreshRow(selection.item);
  }
  function refreshSpanBadge() {
    const meta = byId("detail").querySelector(`[data-span="${selection.span}"] .span-meta`);
    meta.querySelector(".mark-badge")?.remove();
    const { mark } = markOf(selection.item, selection.span);
    if (mark) meta.append(el("span", { class: "mark-badge" }, mark));
  }

  // highlights.js
  function lightSpan(index) {
    const detail = byId("detail");
    detail.classList.toggle("lighting", index !== null);
    for (const node of detail.querySelectorAll("[data-spans]")) {
      const lit = index !== null && has(node, "spans", index);
      node.classList.toggle("lit", lit);
      if (node.scores) heat(node, lit ? node.scores.get(index) : 0, index);
    }
    for (const node of detail.querySelectorAll("[data-facts]"))
      node.classList.toggle("fact", index !== null && has(node, "facts", index));
    for (const node of detail.querySelectorAll("[data-span]"))
      node.classList.toggle("lit", Number(node.dataset.span) === index);
    for (const node of detail.querySelectorAll("[data-span].touched")) node.classList.remove("touched");
    showScores(index);
  }
  function has(node, name, index) {
    return node.dataset[name].split(" ").includes(String(index));
  }
  function heat(node, score, index) {
    if (index === null) return node.style.removeProperty("--heat");
    const best = Math.max(...pieces(selection.item.spans[index]).map((piece2) => piece2.score), 1e-9);
    return node.style.setProperty("--heat", `${Math.round(45 + 55 * (score / best))}%`);
  }
  function showScores(index) {
    const spans = index === null ? selection.item.spans : [selection.item.spans[index]];
    const sums = spans.reduce((all, span) => span.scores.map((score, passage) => score + (all[passage] ?? 0)), []);
    const total = sums.reduce((a, b) => a + b, 0);
    for (const node of byId("detail").querySelectorAll("[data-passage]")) {
      const share = total ? sums[node.dataset.passage] / total : 0;
      node.querySelector(".score").replaceChildren(shareBar(share), percent.format(share));
      node.classList.toggle("best", index !== null && selection.item.spans[index].top === Number(node.dataset.passage));
    }
  }
  function lightPiece(node) {
    const spans = node.dataset.spans.split(" ");
    const detail = byId("detail");
    detail.classList.add("lighting");
    for (const other of detail.querySelectorAll(".part"))
      other.classList.toggle(
        "lit",
        other.dataset.spans.split(" ").some((index) => index && spans.includes(index))
      );
    for (const other of detail.querySelectorAll("[data-span]"))
      other.classList.toggle("touched", spans.includes(other.dataset.span));
    for (const other of detail.querySelectorAll(".piece")) other.classList.toggle("lit", other === node);
  }
  function pin(index) {
    selection.span = index;
    for (const node of byId("detail").querySelectorAll("[data-span]"))
      node.setAttribute("aria-pressed", String(Number(node.dataset.span) === index));
    byId("detail").querySelector(`details:not([open]) [data-span="${index}"]`)?.closest("details").setAttribute("open", "");
    lightSpan(index);
    showMarkBar();
    holdBest();
  }
  function picked() {
    const rows = [...byId("detail").querySelectorAll(".span-row")].map((row2) => Number(row2.dataset.span));
    return [rows, rows.indexOf(selection.item.spans[selection.span]?.claim ?? selection.span)];
  }
  function pinNext() {
    const [rows, place2] = picked();
    if (place2 === rows.length - 1) return;
    const pressed2 = document.activeElement.closest(".mark-bar button");
    pinNeighbour(1);
    pressed2?.focus();
  }
  function pinNeighbour(step2) {
    if (selection.item?.kind !== "answer") return;
    const [rows, place2] = picked();
    if (!rows.length) return;
    pin(rows[place2 < 0 ? step2 > 0 ? 0 : rows.length - 1 : (place2 + step2 + rows.length) % rows.length]);
    const row2 = byId("detail").querySelector(`[data-span="${selection.span}"]`);
    row2.scrollIntoView({ block: "nearest" });
    row2.focus();
  }
  function target(event) {
    const node = event.target instanceof Element ? event.target : null;
    const evidence = node?.closest(".piece") ?? null;
    const row2 = node?.closest("[data-span]");
    const part = node?.closest("[data-inner]");
    return { evidence, span: row2 ? Number(row2.dataset.span) : part ? Number(part.dataset.inner) : null };
  }
  function lightTarget(event) {
    if (selection.item?.kind !== "answer") return;
    const { evidence, span } = target(event);
    if (evidence) lightPiece(evidence);
    else lightSpan(span ?? selection.span);
  }
  function pinTarget(event) {
    if (selection.item?.kind !== "answer") return;
    const { evidence, span } = target(event);
    if (evidence) pin(innermost(selection.item, evidence.dataset.spans.split(" ").map(Number)));
    else if (span !== null) pin(span === selection.span ? null : span);
  }
  function watchHighlights() {
    const detail = byId("detail");
    detail.addEventListener("mouseover", lightTarget);
    detail.addEventListener("focusin", lightTarget);
    detail.addEventListener("mouseleave", () => selection.item?.kind === "answer" && lightSpan(selection.span));
    detail.addEventListener("click", pinTarget);
    detail.addEventListener("marked", pinNext);
    detail.addEventListener("keydown", (event) => {
      if (event.target.classList.contains("piece") && (event.key === "Enter" || event.key === " ")) {
        event.preventDefault();
        pinTarget(event);
      }
    });
  }
  var GAP = 10;
  function room() {
    const top = document.querySelector("header.bar").offsetHeight;
    const marks2 = byId("detail").querySelector(".mark-bar")?.offsetHeight ?? 0;
    return [top + GAP, innerHeight - top - marks2 - 2 * GAP];
  }
  function holdPassages() {
    const stack = byId("detail").querySelector(".passage-stack");
    if (!stack) return;
    const [top, height] = room();
    stack.style.setProperty("--stick-top", `${Math.min(top, top + height - stack.offsetHeight)}px`);
    holdBest();
  }
  function holdBest() {
    const detail = byId("detail");
    detail.querySelector(".passage.held")?.classList.remove("held");
    const best = selection.span === null ? null : detail.querySelector(".passage.best");
    if (!best) return;
    const [top, height] = room();
    const hidden = Math.max(0, best.offsetHeight - height);
    const piece2 = best.querySelector(".piece.lit");
    const place2 = piece2 ? piece2.getBoundingClientRect().top - best.getBoundingClientRect().top : 0;
    const above = Math.min(hidden, Math.max(0, place2 - height / 3));
    best.style.setProperty("--stick-top", `${top - above}px`);
    best.style.setProperty("--stick-bottom", `${innerHeight - top - height - (hidden - above)}px`);
    best.classList.add("held");
  }

  // plots.js
  var FILLS = { supported: "var(--supported)", weak: "url(#dots)", unsupported: "url(#hatch)" };
  var supportScale = { type: "ordinal", domain: SUPPORTS, range: SUPPORTS.map((support) => FILLS[support]) };
  function draw(width, options2) {
    return Plot.plot({ className: "drawing", width, marginTop: 12, marginRight: 12, ...options2 });
  }
  function barHeight(count) {
    return Math.min(60, Math.max(25, 170 / count));
  }
  function bySupport(groups, keys) {
    return groups.flatMap(
      (group, index) => SUPPORTS.map((support) => ({ ...keys(group, index), support, spans: group[support] }))
    );
  }
  function spansOf(counts) {
    return counts.supported + counts.weak + counts.unsupported;
  }
  function drawTimeline(width, { unit, bins }) {
    const rows = bySupport(
      bins.map((bin) => bin.counts),
      (_, index) => ({ start: new Date(bins[index].start), spans: 0 })
    );
    const titles = (row2) => `${timeLabel(row2.start, unit)}
${number.format(row2.spans)} ${row2.support}`;
    return draw(width, {
      height: 210,
      marginLeft: 46,
      color: supportScale,
      x: { type: "utc", label: null },
      y: { label: null, grid: true, ticks: 4 },
      marks: [
        Plot.rectY(rows, {
          x: "start",
          y: "spans",
          fill: "support",
          interval: interval(unit),
          order: [...SUPPORTS].reverse(),
          inset: 0.5,
          channels: { title: titles },
          tip: { format: { x: false, y: false, fill: false } }
        }),
        Plot.ruleY([0], { stroke: "var(--line)" })
      ]
    });
  }
  function interval(unit) {
    return unit === "week" ? "monday" : unit;
  }
  function timeLabel(start, unit) {
    const text = start.toISOString();
    const sizes = { hour: 13, day: 10, week: 10, month: 7, year: 4 };
    const label = text.slice(0, sizes[unit]).replace("T", " ");
    return unit === "hour" ? `${label}:00 UTC` : unit === "week" ? `week of ${label}` : label;
  }
  function drawMasses(width, masses, name, lines) {
    const step2 = 1 / masses.length;
    const rows = bySupport(masses, (_, index) => ({ from: index * step2, to: (index + 1) * step2 }));
    const title = (row2) => `${name} ${row2.from.toFixed(3)} to ${row2.to.toFixed(3)}
${number.format(row2.spans)} ${row2.support}`;
    return draw(width, {
      height: 210,
      marginLeft: 46,
      color: supportScale,
      x: { domain: [0, 1], label: null },
      y: { label: null, grid: true, ticks: 4 },
      marks: [
        Plot.rectY(
          rows,
          Plot.stackY({
            x1: "from",
            x2: "to",
            y: "spans",
            fill: "support",
            order: [...SUPPORTS].reverse(),
            insetLeft: 0.5,
            insetRight: 0.5,
            title,
            tip: { format: { x: false, y: false, fill: false } }
          })
        ),
        Plot.ruleX(lines, { stroke: "var(--ink)", strokeDasharray: "2,3" }),
        Plot.ruleY([0], { stroke: "var(--line)" })
      ]
    });
  }
  function drawShares(width, groups) {
    const rows = groups.map(({ value, counts }) => ({
      name: value ?? NOTHING,
      spans: spansOf(counts),
      unsupported: counts.unsupported / spansOf(counts),
      weak: counts.weak / spansOf(counts)
    }));
    const title = (row2) => `${row2.name}
${percent.format(row2.unsupported)} unsupported, ${percent.format(row2.weak)} weak
${plural(row2.spans, "claim")}`;
    const end = Math.max(0.02, ...rows.map((row2) => row2.unsupported));
    return draw(width, {
      height: 30 + rows.length * barHeight(rows.length),
      marginLeft: Math.min(150, width * 0.36),
      marginRight: 44,
      marginTop: 4,
      marginBottom: 4,
      x: { domain: [0, end], axis: null },
      y: { domain: rows.map((row2) => row2.name), label: null, tickSize: 0, tickFormat: (name) => shortened(name, 20) },
      marks: [
        Plot.barX(rows, {
          y: "name",
          x: "unsupported",
          fill: "url(#hatch)",
          insetTop: 4,
          insetBottom: 4,
          title,
          tip: { format: { x: false, y: false } },
          className: "pick"
        }),
        Plot.text(rows, {
          y: "name",
          x: "unsupported",
          text: (row2) => percent.format(row2.unsupported),
          dx: 6,
          textAnchor: "start",
          fill: "var(--ink)"
        }),
        Plot.ruleX([0], { stroke: "var(--line)" })
      ]
    });
  }
  function drawRanks(width, ranks) {
    const each = Math.ceil(ranks.length * 22 / (width - 58));
    const title = (one) => `passage ${one.rank}, in the prompt of ${plural(one.offered, "claim")}
best for ${percent.format(one.best / one.offered)}, some evidence for ${percent.format(one.used / one.offered)}`;
    return draw(width, {
      height: 220,
      marginLeft: 46,
      marginBottom: 42,
      x: {
        type: "band",
        label: "place in the prompt",
        tickSize: 0,
        tickFormat: (rank, index) => index % each ? "" : rank,
        labelAnchor: "center",
        labelArrow: "none"
      },
      y: { label: null, percent: true, grid: true, ticks: 4, tickFormat: (value) => `${value}%` },
      marks: [
        Plot.barY(ranks, { x: "rank", y: (one) => one.used / one.offered, fill: "var(--rest)", inset: 1 }),
        Plot.barY(ranks, {
          x: "rank",
          y: (one) => one.best / one.offered,
          fill: "var(--bar)",
          insetLeft: 4,
          insetRight: 4,
          title,
          tip: { format: { x: false, y: false } }
        }),
        Plot.ruleY([0], { stroke: "var(--line)" })
      ]
    });
  }
  var LABEL = 22;
  function labels(uses) {
    const titles = uses.map((use) => use.title ?? "");
    const ids = uses.map((use) => use.passage_id);
    const named = new Map(
      uses.map(({ title, passage_id: id }) => [
        id,
        title && titles.indexOf(title) === titles.lastIndexOf(title) ? shortened(title, LABEL) : idLabel(id, ids)
      ])
    );
    return (id) => named.get(id);
  }
  function idLabel(id, ids) {
    if (id.length <= LABEL) return id;
    const shared = Math.max(0, ...ids.filter((other) => other !== id).map((other) => sharedStart(id, other)));
    return shared > 7 ? `…${shortId(id.slice(shared), LABEL - 1)}` : shortId(id, LABEL);
  }
  function sharedStart(text, other) {
    let size = 0;
    while (size < text.length && text[size] === other[size]) size += 1;
    return text.slice(0, size).search(/[/:_.#?=-][^/:_.#?=-]*$/) + 1;
  }
  function drawPassages(width, uses) {
    const title = (use) => `${use.title ? `${use.title}
` : ""}${use.passage_id}
evidence in ${plural(use.answers, "answer")}${use.retrieved === null ? "" : `, retrieved ${plural(use.retrieved, "time")}`}`;
    const size = (use) => Math.max(use.answers, use.retrieved ?? 0);
    const label = (use) => use.retrieved === null ? number.format(use.answers) : `${number.format(use.answers)} of ${number.format(use.retrieved)}`;
    return draw(width, {
      height: 30 + uses.length * barHeight(uses.length),
      marginLeft: Math.min(170, width * 0.36),
      marginRight: 60,
      marginTop: 4,
      marginBottom: 4,
      x: { domain: [0, Math.max(1, ...uses.map(size))], axis: null },
      y: { domain: uses.map((use) => use.passage_id), label: null, tickSize: 0, tickFormat: labels(uses) },
      marks: [
        Plot.barX(uses, {
          y: "passage_id",
          x: (use) => use.retrieved ?? 0,
          fill: "var(--rest)",
          insetTop: 4,
          insetBottom: 4
        }),
        Plot.barX(uses, {
          y: "passage_id",
          x: "answers",
          fill: "var(--bar)",
          insetTop: 7,
          insetBottom: 7,
          title,
          tip: { format: { x: false, y: false } }
        }),
        Plot.text(uses, { y: "passage_id", x: size, text: label, dx: 6, textAnchor: "start", fill: "var(--ink)" }),
        Plot.ruleX([0], { stroke: "var(--line)" })
      ]
    });
  }
  function drawReasons(width, reasons) {
    return draw(width, {
      height: 30 + reasons.length * barHeight(reasons.length),
      marginLeft: Math.min(170, width * 0.42),
      marginRight: 44,
      marginTop: 4,
      marginBottom: 4,
      x: { axis: null },
      y: { domain: reasons.map((one) => one.reason), label: null, tickSize: 0 },
      marks: [
        Plot.barX(reasons, { y: "reason", x: "rows", fill: "var(--bar)", insetTop: 4, insetBottom: 4, className: "pick" }),
        Plot.text(reasons, {
          y: "reason",
          x: "rows",
          text: (one) => number.format(one.rows),
          dx: 6,
          textAnchor: "start",
          fill: "var(--ink)"
        }),
        Plot.ruleX([0], { stroke: "var(--line)" })
      ]
    });
  }

  // plot_cards.js
  var drawings = [];
  function showPlots(pick) {
    const { timeline, masses, support_scores: scores, shares, ranks, passages } = plotData;
    const cards = [
      timelineCard(timeline),
      scoreCard(scores),
      massCard(masses),
      rankCard(ranks),
      ...passageCards(passages),
      ...shares.map((share) => shareCard(share, pick)),
      reasonCard(audit.dead_letters, pick)
    ];
    byId("plots").replaceChildren(...cards.filter(Boolean));
    new ResizeObserver(redraw).observe(byId("plots"));
  }
  function card({ title, sub, draw: draw2, table, size = "", onPick = null }) {
    const canvas = el("div", { class: "canvas" });
    const head2 = el("h3", { dir: "auto" }, title);
    drawings.push({ canvas, draw: draw2, title, onPick, width: 0 });
    return el(
      "section",
      { class: `plot ${size}` },
      head2,
      el("p", { class: "sub", dir: "auto" }, sub),
      canvas,
      table && el("details", {}, el("summary", {}, "As a table"), table)
    );
  }
  function redraw() {
    for (const drawing of drawings) {
      const width = drawing.canvas.clientWidth;
      if (!width || width === drawing.width) continue;
      drawing.width = width;
      const node = drawing.draw(width);
      node.setAttribute("role", "img");
      node.setAttribute("aria-label", drawing.title);
      for (const part of node.querySelectorAll("g[aria-label]")) part.removeAttribute("aria-label");
      drawing.canvas.replaceChildren(node);
      if (drawing.onPick) letPick(node, drawing.onPick);
    }
  }
  function letPick(node, onPick) {
    for (const bar of node.querySelectorAll("g.pick rect"))
      bar.addEventListener("click", () => onPick(bar.__data__, "unsupported"));
  }
  function figureTable(caption, heads, rows) {
    const head2 = el(
      "tr",
      {},
      heads.map((name) => el("th", { scope: "col" }, name))
    );
    const body = rows.map(
      ([name, ...cells2]) => el(
        "tr",
        {},
        el("th", { scope: "row", dir: "auto" }, name),
        cells2.map((cell2) => el("td", {}, cell2))
      )
    );
    return el(
      "div",
      { class: "table-box", tabindex: 0, role: "region", "aria-label": caption },
      el("table", {}, el("thead", {}, head2), el("tbody", {}, body))
    );
  }
  function supportCells(counts) {
    return SUPPORTS.map((support) => number.format(counts[support]));
  }
  function timelineCard(timeline) {
    if (timeline.bins.length < 2) return null;
    const undated = timeline.undated ? ` ${plural(timeline.undated, "claim")} without a time are left out.` : "";
    const rows = timeline.bins.map((bin) => [timeLabel(new Date(bin.start), timeline.unit), ...supportCells(bin.counts)]);
    const sub = `Claims by support, one bar for each ${timeline.unit} in UTC.${undated}`;
    return card({
      title: "When answers were given",
      sub,
      size: "wide",
      draw: (width) => drawTimeline(width, timeline),
      table: figureTable("When answers were given", [timeline.unit, ...SUPPORTS], rows)
    });
  }
  function massCard(masses) {
    if (!masses.length) return null;
    const lines = Object.values(audit.thresholds).filter(Boolean).map(Number);
    return card({
      title: "Evidence mass",
      sub: `Claims by the share of their attention that lies on evidence${lines.length ? "; dotted lines are the thresholds" : ""}.`,
      draw: (width) => drawMasses(width, masses, "mass", lines),
      table: massTable("Evidence mass", "mass", masses)
    });
  }
  function scoreCard(scores) {
    if (!scores.length) return null;
    return card({
      title: "Support score",
      sub: "Claims by the calibrated probability that the passages support them.",
      draw: (width) => drawMasses(width, scores, "score", []),
      table: massTable("Support score", "score", scores)
    });
  }
  function massTable(title, name, masses) {
    const rows = masses.map((counts, index) => [
      `${(index / masses.length).toFixed(3)} to ${((index + 1) / masses.length).toFixed(3)}`,
      ...supportCells(counts)
    ]);
    return figureTable(title, [name, ...SUPPORTS], rows);
  }
  var COLUMN_TITLES = { generator: "Unsupported by generator", span_kind: "Unsupported by kind of span" };
  function shareCard(share, pick) {
    if (share.groups.length < 2 || !share.groups.some((group) => group.counts.unsupported)) return null;
    const title = COLUMN_TITLES[share.column] ?? `Unsupported by ${share.column}`;
    const worst = share.groups[0];
    const rest = share.other_values ? ` ${plural(share.other_values, "smaller value")} not drawn.` : "";
    const sub = `Highest for ${shortened(worst.value ?? NOTHING, 30)}: ${plural(worst.counts.unsupported, "claim")} of ${number.format(spansOf(worst.counts))}.${rest}`;
    const rows = share.groups.map((group) => [
      group.value ?? NOTHING,
      ...supportCells(group.counts),
      percent.format(group.counts.unsupported / spansOf(group.counts))
    ]);
    if (share.other_values)
      rows.push([
        `${share.other_values} others`,
        ...supportCells(share.others),
        percent.format(share.others.unsupported / spansOf(share.others))
      ]);
    const filter2 = { generator: "generator", span_kind: "kind" }[share.column];
    const filters = (value) => filter2 ? { [filter2]: value ?? "" } : { columns: { [share.column]: value } };
    const onPick = (index, support) => pick({ ...filters(share.groups[index].value), support });
    return card({
      title,
      sub,
      onPick,
      draw: (width) => drawShares(width, share.groups),
      table: figureTable(title, [share.column, ...SUPPORTS, "share"], rows)
    });
  }
  function rankCard(ranks) {
    if (ranks.length < 2) return null;
    const used = ranks.filter((one) => one.used).at(-1);
    const sub = `Narrow bars: claims whose best passage stands at that place. Wide bars behind them: claims with any evidence there.${used ? ` The last place with evidence is ${used.rank}.` : ""}`;
    const rows = ranks.map((one) => [
      String(one.rank),
      number.format(one.offered),
      number.format(one.used),
      number.format(one.best)
    ]);
    return card({
      title: "Which place in the prompt is used",
      sub,
      draw: (width) => drawRanks(width, ranks),
      table: figureTable("Which place in the prompt is used", ["place", "claims", "with evidence", "best"], rows)
    });
  }
  function passageCards({ most_used: most, least_used: least, passage_count: count, per_row_ids: perRow }) {
    const heads = ["passage", "answers", "retrieved"];
    const left = perRow ? ` ${plural(perRow, "id")} left out: each names another passage in every row.` : "";
    const rows = (uses) => uses.map((use) => [
      use.title ? `${use.title} (${use.passage_id})` : use.passage_id,
      number.format(use.answers),
      use.retrieved === null ? "–" : number.format(use.retrieved)
    ]);
    const cards = [];
    if (most.length > 1)
      cards.push(
        card({
          title: "Most used passages",
          sub: `Answers with evidence in a passage, of ${plural(count, "passage")} with an id.${left}`,
          draw: (width) => drawPassages(width, most),
          table: figureTable("Most used passages", heads, rows(most))
        })
      );
    if (least.length > 1)
      cards.push(
        card({
          title: "Least used passages",
          sub: "Retrieved most often among those that answers draw on least.",
          draw: (width) => drawPassages(width, least),
          table: figureTable("Least used passages", heads, rows(least))
        })
      );
    return cards;
  }
  function reasonCard(deadLetters, pick) {
    if (deadLetters.length < 2) return null;
    const rows = deadLetters.map((one) => [one.reason, number.format(one.rows)]);
    const onPick = (index) => pick({ reason: deadLetters[index].reason });
    return card({
      title: "Dead letters by reason",
      sub: "Rows of the log that could not be audited.",
      onPick,
      draw: (width) => drawReasons(width, deadLetters),
      table: figureTable("Dead letters by reason", ["reason", "rows"], rows)
    });
  }

  // record_view.js
  function answerView(item) {
    return [
      crumbs(item, [
        item.generator,
        moment(item.at),
        ["answer", "not_judged"].includes(item.answer_kind) ? "" : answerKindName(item.answer_kind),
        item.risk === null ? "" : [term("answer risk", "risk"), ` ${percentOf(item.risk)}`],
        ...item.not_judged.map((reason) => `not judged: ${reason}`),
        ...item.extra.map(([name, value]) => `${name}: ${value}`)
      ]),
      item.question === null ? el(
        "p",
        { class: "warning" },
        "The log of this answer is not there as it was audited, or its texts are too long for this page. Shown are its spans and their evidence."
      ) : el("h2", { class: "question", dir: "auto" }, item.question),
      el(
        "div",
        { class: "columns" },
        el("div", {}, answerText(item), spanList(item), thenAndNow(item)),
        passageCardsOf(item)
      ),
      markBar(item)
    ];
  }
  function crumbs(item, facts) {
    const parts = facts.filter(Boolean).map((fact) => el("bdi", {}, ...[fact].flat()));
    const link = () => `${location.href.replace(/#.*$/s, "")}${address(item)}`;
    return el(
      "div",
      {},
      el("a", { class: "back", href: "#answers" }, "← Back to the list"),
      el(
        "p",
        { class: "crumbs" },
        el("b", {}, item.id === null ? `row ${item.row}` : copyable(item.id)),
        el("bdi", { title: item.file }, `${item.file.split("/").at(-1)}, row ${item.row}`),
        parts,
        copyButton(link, "Copy a link to this answer", "copy link")
      )
    );
  }
  function answerText(item) {
    if (item.answer === null) return null;
    const box = el("div", { class: "answer-text", dir: "auto" });
    for (const [part, hits] of cut(item.answer, [...answerRanges(item), ...markdownRanges(item.answer)])) {
      const markdown = hits.filter((hit) => hit.markdown);
      place(box, styled(segment(item, part, hits), markdown), markdown);
    }
    return el("section", { "aria-label": "Answer text" }, box);
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
      { class: `part ${support}`, "data-spans": spans.join(" "), "data-facts": of("fact").join(" "), "data-inner": inner },
      text
    );
  }
  function passageCardsOf(item) {
    const shown = item.passages.length ? item.passages.map((passage, index) => wholePassage(item, passage, index)) : fragmentPassages(item);
    return el("section", { class: "passages", "aria-label": "Passages" }, el("div", { class: "passage-stack" }, shown));
  }
  function wholePassage(item, passage, index) {
    const head2 = passageHead(passage.id, index);
    const title = passage.title ? el("h3", { dir: "auto" }, markedText(item, passage.title, evidenceRanges(item, index, true))) : null;
    const text = el(
      "div",
      { class: "passage-text", dir: "auto" },
      markedText(item, passage.text, evidenceRanges(item, index, false))
    );
    const used = item.spans.some((span) => span.scores[index] > 0);
    return el(
      "section",
      { class: `passage ${used ? "" : "unused"}`, "data-passage": index, "aria-label": `Passage ${index + 1}` },
      head2,
      title,
      text
    );
  }
  function passageHead(id, index) {
    return el(
      "div",
      { class: "passage-head" },
      el("span", { class: "rank" }, `Passage ${index + 1}`),
      el("span", { class: "id" }, id ? copyable(id) : ""),
      el("span", { class: "score" })
    );
  }
  function markedText(item, text, ranges) {
    return cut(text, ranges).map(([part, hits]) => hits.length ? piece(item, part, hits) : part);
  }
  function piece(item, part, hits) {
    const spans = [...new Set(hits.map((hit) => hit.span))];
    const names = spans.slice(0, 3).map((index) => shortened(spanText(item, item.spans[index]), 60)).join("; ");
    const node = el(
      "mark",
      {
        class: "piece",
        tabindex: 0,
        role: "button",
        "aria-label": `${part.trim() || "white space"}: evidence for ${names}`,
        "data-spans": spans.join(" ")
      },
      part
    );
    node.scores = new Map(
      spans.map((index) => [index, Math.max(...hits.filter((hit) => hit.span === index).map((hit) => hit.score))])
    );
    return node;
  }
  function fragmentPassages(item) {
    const count = Math.max(0, ...item.spans.map((span) => span.scores.length));
    return [...Array(count).keys()].map((index) => fragmentPassage(item, index));
  }
  function fragmentPassage(item, index) {
    const shown = fragments(item, index);
    const parts = shown.map((one) => el("span", { class: "fragment" }, piece(item, one.text, one.hits)));
    return el(
      "section",
      { class: `passage ${shown.length ? "" : "unused"}`, "data-passage": index, "aria-label": `Passage ${index + 1}` },
      passageHead(shown[0]?.id, index),
      el("div", { class: "passage-text", dir: "auto" }, parts)
    );
  }
  function fragments(item, index) {
    const found = /* @__PURE__ */ new Map();
    for (const [spanIndex, span] of item.spans.entries()) {
      for (const one of pieces(span).filter((other) => other.passage === index)) {
        const key = JSON.stringify([one.title, ...one.at]);
        if (!found.has(key)) found.set(key, { id: one.id, text: one.text, hits: [] });
        found.get(key).hits.push({ span: spanIndex, score: one.score });
      }
    }
    return [...found.values()];
  }
  function deadLetterView(item) {
    return [
      crumbs(item, [`stage ${item.stage}`, item.column ? `column ${item.column}` : ""]),
      el("h2", { class: "question" }, `Not audited: ${spaced(item.reason)}`),
      el("p", { class: "dead-letter-message", dir: "auto" }, item.message),
      item.answer ? el(
        "section",
        { class: "dead-letter-answer", "aria-label": "Answer text" },
        el("p", { class: "label" }, "Answer"),
        el("div", { class: "answer-text", dir: "auto" }, item.answer)
      ) : null,
      markBar(item)
    ];
  }
  function spanList(item) {
    const claims = claimsOf(item);
    const others = othersOf(item);
    return el(
      "section",
      { class: "spans", "aria-label": "Claims" },
      claims.length ? el("p", { class: "label" }, plural(claims.length, "claim")) : null,
      el(
        "ol",
        {},
        claims.map(
          ({ index, parts }) => el("li", {}, spanRow(item, index), parts.length ? partList(item, index, parts) : null)
        )
      ),
      others.length ? otherSpans(item, others, !claims.length) : null
    );
  }
  function otherSpans(item, others, open) {
    const judged = others.some((index) => item.spans[index].support === "not_judged");
    return el(
      "details",
      { class: "others", open },
      el(
        "summary",
        {},
        `${plural(others.length, "span")} ${judged ? "that are no claim or cannot be judged" : "that claim nothing"}`
      ),
      el(
        "ol",
        {},
        others.map((index) => el("li", {}, spanRow(item, index)))
      )
    );
  }
  function spanRow(item, index) {
    const span = item.spans[index];
    return el(
      "button",
      { type: "button", class: "span-row", "data-span": index, "aria-pressed": "false" },
      glyph(span),
      el("span", { class: "span-text", dir: "auto" }, struckText(item, span)),
      measure(span),
      spanMeta(item, index)
    );
  }
  function partList(item, claim, parts) {
    return el(
      "div",
      { class: "parts", role: "group", "aria-label": "Within this claim" },
      parts.map((index) => {
        const span = item.spans[index];
        const own = span.unmatched.length || span.support !== item.spans[claim].support ? span.support : "";
        return el(
          "button",
          { type: "button", class: `part-chip ${own}`, "data-span": index, "aria-pressed": "false" },
          el("span", { class: "span-text", dir: "auto" }, struckText(item, span)),
          spanMeta(item, index)
        );
      })
    );
  }
  function measure(span) {
    const [share, meaning] = measureOf(span);
    if (share === null) return el("span", { class: "mass" }, el("span", {}, "–"));
    return el("span", { class: "mass", title: meaning }, shareBar(share, span.support), el("span", {}, share.toFixed(2)));
  }
  function spanMeta(item, index) {
    const span = item.spans[index];
    const mark = markOf(item, index).mark;
    return el(
      "span",
      { class: "span-meta" },
      el("span", {}, verdict(span), spanFacts(span), " "),
      mark ? el("span", { class: "mark-badge" }, mark) : null
    );
  }
  function thenAndNow(item) {
    if (!item.before) return null;
    const rows = pairs(item).map(([then, now]) => el("tr", {}, cell(then), cell(now)));
    return el(
      "section",
      { class: "then-and-now", "aria-label": "Then and now" },
      el("p", { class: "label" }, `Then and now: ${item.change}`),
      el("table", {}, el("thead", {}, el("tr", {}, head("Then", item.before), head("Now", item))), el("tbody", {}, rows))
    );
  }
  function head(name, { risk, answer_kind: kind }) {
    const facts = [risk === null ? "" : `risk ${percentOf(risk)}`, kind === "answer" ? "" : answerKindName(kind)];
    return el("th", { scope: "col" }, [name, ...facts.filter(Boolean)].join(", "));
  }
  function pairs(item) {
    const then = item.before.claims.map(([text, support, score, unmatched]) => ({ text, support, score, unmatched }));
    const rows = [];
    let next = 0;
    for (const { index } of claimsOf(item)) {
      const { support, score, unmatched } = item.spans[index];
      const now = { text: spanText(item, item.spans[index]), support, score, unmatched };
      const same = then.findIndex((claim, place2) => place2 >= next && claim.text === now.text);
      if (same < 0) rows.push([null, now]);
      else {
        rows.push(...then.slice(next, same).map((claim) => [claim, null]), [then[same], now]);
        next = same + 1;
      }
    }
    return [...rows, ...then.slice(next).map((claim) => [claim, null])];
  }
  function cell(claim) {
    if (claim === null) return el("td", { class: "gone" }, "–");
    const { text, support, score, unmatched } = claim;
    const figure = score === null ? "" : ` ${score.toFixed(2)}`;
    const missing = unmatched.length ? `, not in the passages: ${unmatched.join(", ")}` : "";
    return el(
      "td",
      {},
      el("span", { dir: "auto" }, text),
      el(
        "small",
        {},
        el("b", { class: `verdict ${support}` }, `${GLYPHS[support]} ${supportName(support)}`),
        figure,
        missing
      )
    );
  }

  // views.js
  function inAnswers() {
    return !byId("view-answers").hidden;
  }
  function go(place2) {
    if (location.hash !== place2) location.hash = place2;
    showView();
  }
  function showView() {
    const place2 = placeOf(location.hash);
    const { answers } = place2;
    const stayed = answers === inAnswers();
    byId("view-overview").hidden = answers;
    byId("view-answers").hidden = !answers;
    for (const link of document.querySelectorAll("[data-view]"))
      link.toggleAttribute("aria-current", link.dataset.view === "answers" === answers);
    document.querySelector("[data-view][aria-current]")?.setAttribute("aria-current", "page");
    if (!stayed) scrollTo(0, 0);
    if (answers) showAnswers(place2);
    else redraw();
  }
  function placeOf(hash) {
    const id = /^#answer=(.*)$/s.exec(hash)?.[1];
    if (id !== void 0) return { answers: true, id: decoded(id), item: itemOfId(decoded(id)) ?? null };
    const [, view = "", number2 = ""] = /^#(\w*)\/?(\d*)$/.exec(hash) ?? [];
    return { answers: view === "answers", item: items[Number(number2) - 1] ?? null };
  }
  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }
  function showAnswers({ id, item }) {
    if (id !== void 0 && item === null) return showMissing(id);
    if (!item && !listed.length) return showHint("Nothing passes these filters.");
    const wanted = item ?? (wide() ? listed.includes(selection.item) ? selection.item : listed[0] : null);
    byId("view-answers").classList.toggle("open", item !== null);
    if (wanted) openItem(wanted);
    else if (!selection.item) showHint("Choose an answer.");
    else showCurrent();
  }
  function showMissing(id) {
    byId("view-answers").classList.add("open");
    showHint(
      el("a", { class: "back", href: "#answers" }, "← Back to the list"),
      `No answer with the id ${id} is on this page. It may be in the audit all the same: `,
      el("code", {}, `attribeam show ${id} --audit DIR`),
      " prints any."
    );
  }
  function showHint(...text) {
    selection.item = null;
    selection.span = null;
    byId("detail").replaceChildren(el("p", { class: "hint" }, ...text));
    showCurrent();
  }
  function wide() {
    return matchMedia("(min-width: 54.01rem)").matches;
  }
  function openItem(item) {
    if (selection.item !== item) {
      selection.item = item;
      selection.span = null;
      byId("detail").replaceChildren(
        ...(item.kind === "answer" ? answerView(item) : deadLetterView(item)).filter(Boolean)
      );
      if (item.kind === "answer") showScores(null);
      announce(`${listed.indexOf(item) + 1} of ${listed.length}: ${item.question ?? item.id ?? "row"}`);
      scrollTo(0, 0);
    }
    showMarkBar();
    showCurrent();
    holdPassages();
  }
  function filter() {
    const opened = selection.item;
    updateWorklist();
    if (!inAnswers() || opened !== null && listed.includes(opened)) return;
    if (listed.length && wide()) {
      history.replaceState(null, "", address(listed[0]));
      showView();
    } else if (!listed.length) showHint("Nothing passes these filters.");
    else showView();
  }
  function refresh() {
    updateWorklist();
    if (!inAnswers()) return;
    selection.item = null;
    showView();
  }
  function showFiltered({ columns = {}, ...filters }) {
    resetFilters();
    for (const [name, value] of Object.entries(filters))
      choose(byId(`filter-${name}`), value === "" && name === "generator" ? NO_GENERATOR : value);
    for (const [name, value] of Object.entries(columns)) chooseColumn(name, value);
    updateWorklist();
    go("#answers");
  }

  // mark_menu.js
  function watchMarkMenu() {
    showReviewer();
    showMarkCount();
    const menu = byId("export-menu");
    byId("reviewer").addEventListener("input", keepReviewer);
    for (const button of document.querySelectorAll("[data-export]"))
      button.addEventListener("click", () => {
        saveMarks(button.dataset.export);
        menu.open = false;
      });
    byId("mark-import").addEventListener("change", takeFile);
    byId("mark-clear").addEventListener("click", clear);
    menu.addEventListener("toggle", () => menu.open || askToClear(false));
    document.addEventListener("click", (event) => {
      if (!menu.contains(event.target)) menu.open = false;
    });
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.querySelector("summary").focus();
    });
  }
  async function takeFile(event) {
    const [file] = event.target.files;
    if (!file) return;
    const found = await importMarks(file);
    event.target.value = "";
    tell(found);
    refresh();
  }
  function clear() {
    const button = byId("mark-clear");
    if (button.dataset.asked === void 0) return askToClear(true);
    const count = marks.size;
    clearMarks();
    askToClear(false);
    tell(`${plural(count, "mark")} cleared`);
    refresh();
  }
  function askToClear(asked) {
    const button = byId("mark-clear");
    if (asked) button.dataset.asked = "";
    else delete button.dataset.asked;
    button.textContent = asked ? `Really clear ${plural(marks.size, "mark")}?` : "Clear all marks";
  }
  function tell(text) {
    byId("mark-told").textContent = text;
    announce(text);
  }
  var MARK_COLUMNS = [
    ["record_id", "STRING"],
    ["source_file", "STRING"],
    ["source_row", "INT64"],
    ["span_index", "INT32"],
    ["char_start", "INT32"],
    ["char_end", "INT32"],
    ["text", "STRING"],
    ["support", "STRING"],
    ["risk", "DOUBLE"],
    ["mark", "STRING"],
    ["label", "STRING"],
    ["note", "STRING"],
    ["reviewer", "STRING"],
    ["marked_at", "TIMESTAMP"],
    ["audit", "STRING"]
  ];
  function markRows() {
    const rows = [];
    for (const item of items) {
      for (const spanIndex of [null, ...item.spans.keys()]) {
        const found = marks.get(markKey(item, spanIndex));
        if (found) rows.push(markRow(item, spanIndex, found));
      }
    }
    return rows;
  }
  function markRow(item, spanIndex, found) {
    const span = spanIndex === null ? null : item.spans[spanIndex];
    return {
      record_id: item.id,
      source_file: item.file,
      source_row: item.row,
      span_index: span?.index ?? null,
      char_start: span?.at[0] ?? null,
      char_end: span?.at[1] ?? null,
      text: span ? spanText(item, span) : null,
      support: span?.support ?? null,
      risk: item.risk ?? null,
      mark: found.mark || null,
      label: labelOf(item, spanIndex, found.mark),
      note: found.note || null,
      reviewer: found.by || null,
      marked_at: found.at,
      audit: audit.key
    };
  }
  function csvText(rows) {
    const names = MARK_COLUMNS.map(([name]) => name);
    const lines = [names, ...rows.map((row2) => names.map((name) => csvField(row2[name])))];
    return `${lines.map((line) => line.join(",")).join("\r\n")}\r
`;
  }
  function csvField(value) {
    if (value === null) return "";
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }
  function jsonlText(rows) {
    return rows.map((row2) => `${JSON.stringify(row2)}
`).join("");
  }
  function parquetBytes(rows) {
    return ParquetWriter.parquetWriteBuffer({
      columnData: MARK_COLUMNS.map(([name, type]) => ({
        name,
        type,
        nullable: true,
        data: rows.map((row2) => parquetValue(row2[name], type))
      }))
    });
  }
  function parquetValue(value, type) {
    if (value === null) return null;
    if (type === "INT64") return BigInt(value);
    return type === "TIMESTAMP" ? new Date(value) : value;
  }
  var MARK_FILES = {
    csv: ["text/csv", (rows) => `\uFEFF${csvText(rows)}`],
    jsonl: ["application/x-ndjson", jsonlText],
    parquet: ["application/vnd.apache.parquet", parquetBytes]
  };
  function saveMarks(format) {
    const [type, write] = MARK_FILES[format];
    const address2 = URL.createObjectURL(new Blob([write(markRows())], { type }));
    el("a", { href: address2, download: `marks-${audit.key}.${format}` }).click();
    setTimeout(() => URL.revokeObjectURL(address2), 6e4);
  }
  async function importMarks(file) {
    let rows;
    try {
      rows = rowsOf(await file.text());
    } catch (error) {
      return `${file.name} cannot be read: ${error.message}. Save marks as CSV or JSONL to bring them back.`;
    }
    let taken = 0;
    let older = 0;
    let strange = 0;
    for (const row2 of rows) {
      const place2 = placeOf2(row2);
      if (!place2) strange += 1;
      else if (takeMark(...place2, entryOf(row2, ...place2))) taken += 1;
      else older += 1;
    }
    keepMarks();
    const rest = [
      older ? `${older} not newer than those here` : "",
      strange ? `${strange} of answers or spans that are not on this page` : ""
    ].filter(Boolean);
    return [`${plural(taken, "mark")} taken`, ...rest].join(", ");
  }
  function rowsOf(text) {
    const plain = text.replace(/^\ufeff/, "");
    const rows = /^\s*\{/.test(plain) ? jsonRows(plain) : csvRows(plain);
    if (!rows.length) throw new Error("it has no marks");
    if (!("record_id" in rows[0] && "mark" in rows[0])) throw new Error("it has no columns record_id and mark");
    return rows;
  }
  function jsonRows(text) {
    return text.split("\n").filter((line) => line.trim()).map((line, index) => {
      try {
        return JSON.parse(line);
      } catch {
        throw new Error(`line ${index + 1} is no JSON`);
      }
    });
  }
  function csvRows(text) {
    const [names, ...lines] = csvLines(text);
    return lines.map((line) => Object.fromEntries(names.map((name, place2) => [name, unquoted(line[place2] ?? "")])));
  }
  function unquoted(field) {
    return /^'[=+\-@\t\r]/.test(field) ? field.slice(1) : field;
  }
  function csvLines(text) {
    const lines = [];
    let fields = [];
    for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)) {
      fields.push(quoted === void 0 ? plain : quoted.replaceAll('""', '"'));
      if (end === ",") continue;
      if (fields.some(Boolean)) lines.push(fields);
      fields = [];
    }
    return lines;
  }
  function placeOf2(row2) {
    const item = items.find(
      (one) => one.file === row2.source_file && one.row === Number(row2.source_row) && one.id === row2.record_id
    ) ?? items.find((one) => one.id !== null && one.id === row2.record_id);
    if (!item) return null;
    if (row2.span_index === null || row2.span_index === "" || row2.span_index === void 0) return [item, null];
    const fits = (span) => span.at[0] === Number(row2.char_start) && span.at[1] === Number(row2.char_end);
    const same = item.spans.findIndex((span) => span.index === Number(row2.span_index) && fits(span));
    const index = same < 0 ? item.spans.findIndex(fits) : same;
    return index < 0 ? null : [item, index];
  }
  function entryOf(row2, item, spanIndex) {
    const labelled = row2.label ? MARKS.find((mark) => labelOf(item, spanIndex, mark) === row2.label) : void 0;
    return {
      mark: labelled ?? (MARKS.includes(row2.mark) ? row2.mark : ""),
      note: row2.note ?? "",
      at: row2.marked_at ?? "",
      by: row2.reviewer ?? ""
    };
  }

  // start.js
  var THEMES = ["", "light", "dark"];
  var THEME_NAMES = { "": "as the system", light: "light", dark: "dark" };
  function nextTheme() {
    setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "") + 1) % THEMES.length]);
  }
  function setTheme(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    byId("theme-button").setAttribute("aria-label", `Colours: ${THEME_NAMES[theme]}`);
    byId("theme-button").textContent = { "": "◐", light: "☀", dark: "☾" }[theme];
    try {
      localStorage.setItem("attribeam-theme", theme);
    } catch {
    }
  }
  function storedTheme() {
    try {
      const theme = localStorage.getItem("attribeam-theme") ?? "";
      return THEMES.includes(theme) ? theme : "";
    } catch {
      return "";
    }
  }
  var KEYS = {
    j: () => step(1),
    k: () => step(-1),
    "]": () => pinNeighbour(1),
    "[": () => pinNeighbour(-1),
    r: () => inAnswers() && toggleMark("right"),
    w: () => inAnswers() && toggleMark("wrong"),
    u: () => inAnswers() && toggleMark("unsure"),
    n: () => inAnswers() && byId("note")?.focus(),
    o: () => go(inAnswers() ? "#overview" : selection.item ? address(selection.item) : "#answers"),
    "/": () => {
      if (!inAnswers()) go("#answers");
      byId("filter-text").focus();
    },
    "?": () => byId("help").showModal(),
    Escape: () => selection.item && pin(null)
  };
  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const field = event.target.closest?.("input, textarea, select");
    if (field) {
      if (event.key === "Escape") field.blur();
      return;
    }
    const act = KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }
  function step(by) {
    const item = neighbour(inAnswers() ? by : 0);
    if (!item) return announce(by > 0 ? "This is the last answer" : "This is the first answer");
    return go(address(item));
  }
  setTheme(storedTheme());
  fillFilters(filter);
  fillWords();
  watchMarkMenu();
  showFirst();
  updateWorklist();
  watchList();
  watchHighlights();
  byId("theme-button").addEventListener("click", nextTheme);
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  byId("filter-reset").addEventListener("click", () => {
    resetFilters();
    filter();
  });
  addEventListener("keydown", pressed);
  addEventListener("hashchange", showView);
  addEventListener("resize", holdPassages);
  requestAnimationFrame(
    () => setTimeout(() => {
      showPlots(showFiltered);
      showView();
      document.documentElement.dataset.ready = "";
    })
  );
})();
