// The drawings, made by Observable Plot. Colours are variables of the style sheet, so they follow the theme.

import {shortId} from "./elements.js";
import {SUPPORTS} from "./page_data.js";
import {NOTHING, number, percent, plural, shortened} from "./texts.js";

const FILLS = {supported: "var(--supported)", weak: "url(#dots)", unsupported: "url(#hatch)"};
const supportScale = {type: "ordinal", domain: SUPPORTS, range: SUPPORTS.map((support) => FILLS[support])};

function draw(width, options) {
  return Plot.plot({className: "drawing", width, marginTop: 12, marginRight: 12, ...options});
}

/** The pixels of one of ``count`` bars: few bars are thicker, so that they fill a card as other plots do. */
function barHeight(count) {
  return Math.min(60, Math.max(25, 170 / count));
}

/** One row per group and support, for stacked marks. */
function bySupport(groups, keys) {
  return groups.flatMap((group, index) =>
    SUPPORTS.map((support) => ({...keys(group, index), support, spans: group[support]})),
  );
}

export function spansOf(counts) {
  return counts.supported + counts.weak + counts.unsupported;
}

export function drawTimeline(width, {unit, bins}) {
  const rows = bySupport(
    bins.map((bin) => bin.counts),
    (_, index) => ({start: new Date(bins[index].start), spans: 0}),
  );
  const titles = (row) => `${timeLabel(row.start, unit)}\n${number.format(row.spans)} ${row.support}`;
  return draw(width, {
    height: 210,
    marginLeft: 46,
    color: supportScale,
    x: {type: "utc", label: null},
    y: {label: null, grid: true, ticks: 4},
    marks: [
      Plot.rectY(rows, {
        x: "start",
        y: "spans",
        fill: "support",
        interval: interval(unit),
        order: [...SUPPORTS].reverse(),
        inset: 0.5,
        channels: {title: titles},
        tip: {format: {x: false, y: false, fill: false}},
      }),
      Plot.ruleY([0], {stroke: "var(--line)"}),
    ],
  });
}

function interval(unit) {
  return unit === "week" ? "monday" : unit;
}

export function timeLabel(start, unit) {
  const text = start.toISOString();
  const sizes = {hour: 13, day: 10, week: 10, month: 7, year: 4};
  const label = text.slice(0, sizes[unit]).replace("T", " ");
  return unit === "hour" ? `${label}:00 UTC` : unit === "week" ? `week of ${label}` : label;
}

/** Claims by support over bins of [0, 1], of the evidence mass or the support score; ``lines`` are dotted. */
export function drawMasses(width, masses, name, lines) {
  const step = 1 / masses.length;
  const rows = bySupport(masses, (_, index) => ({from: index * step, to: (index + 1) * step}));
  const title = (row) =>
    `${name} ${row.from.toFixed(3)} to ${row.to.toFixed(3)}\n${number.format(row.spans)} ${row.support}`;
  return draw(width, {
    height: 210,
    marginLeft: 46,
    color: supportScale,
    x: {domain: [0, 1], label: null},
    y: {label: null, grid: true, ticks: 4},
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
          tip: {format: {x: false, y: false, fill: false}},
        }),
      ),
      Plot.ruleX(lines, {stroke: "var(--ink)", strokeDasharray: "2,3"}),
      Plot.ruleY([0], {stroke: "var(--line)"}),
    ],
  });
}

/** Bars of the unsupported share, which stands at their ends. */
export function drawShares(width, groups) {
  const rows = groups.map(({value, counts}) => ({
    name: value ?? NOTHING,
    spans: spansOf(counts),
    unsupported: counts.unsupported / spansOf(counts),
    weak: counts.weak / spansOf(counts),
  }));
  const title = (row) =>
    `${row.name}\n${percent.format(row.unsupported)} unsupported, ${percent.format(row.weak)} weak\n${plural(row.spans, "claim")}`;
  const end = Math.max(0.02, ...rows.map((row) => row.unsupported));
  return draw(width, {
    height: 30 + rows.length * barHeight(rows.length),
    marginLeft: Math.min(150, width * 0.36),
    marginRight: 44,
    marginTop: 4,
    marginBottom: 4,
    x: {domain: [0, end], axis: null},
    y: {domain: rows.map((row) => row.name), label: null, tickSize: 0, tickFormat: (name) => shortened(name, 20)},
    marks: [
      Plot.barX(rows, {
        y: "name",
        x: "unsupported",
        fill: "url(#hatch)",
        insetTop: 4,
        insetBottom: 4,
        title,
        tip: {format: {x: false, y: false}},
        className: "pick",
      }),
      Plot.text(rows, {
        y: "name",
        x: "unsupported",
        text: (row) => percent.format(row.unsupported),
        dx: 6,
        textAnchor: "start",
        fill: "var(--ink)",
      }),
      Plot.ruleX([0], {stroke: "var(--line)"}),
    ],
  });
}

export function drawRanks(width, ranks) {
  const each = Math.ceil((ranks.length * 22) / (width - 58));
  const title = (one) =>
    `passage ${one.rank}, in the prompt of ${plural(one.offered, "claim")}\nbest for ${percent.format(one.best / one.offered)}, some evidence for ${percent.format(one.used / one.offered)}`;
  return draw(width, {
    height: 220,
    marginLeft: 46,
    marginBottom: 42,
    x: {
      type: "band",
      label: "place in the prompt",
      tickSize: 0,
      tickFormat: (rank, index) => (index % each ? "" : rank),
      labelAnchor: "center",
      labelArrow: "none",
    },
    y: {label: null, percent: true, grid: true, ticks: 4, tickFormat: (value) => `${value}%`},
    marks: [
      Plot.barY(ranks, {x: "rank", y: (one) => one.used / one.offered, fill: "var(--rest)", inset: 1}),
      Plot.barY(ranks, {
        x: "rank",
        y: (one) => one.best / one.offered,
        fill: "var(--bar)",
        insetLeft: 4,
        insetRight: 4,
        title,
        tip: {format: {x: false, y: false}},
      }),
      Plot.ruleY([0], {stroke: "var(--line)"}),
    ],
  });
}

const LABEL = 22;

/** Passages by their titles where these differ, else by the part of the id in which it differs from the others. */
function labels(uses) {
  const titles = uses.map((use) => use.title ?? "");
  const ids = uses.map((use) => use.passage_id);
  const named = new Map(
    uses.map(({title, passage_id: id}) => [
      id,
      title && titles.indexOf(title) === titles.lastIndexOf(title) ? shortened(title, LABEL) : idLabel(id, ids),
    ]),
  );
  return (id) => named.get(id);
}

/** An id short enough for a label; what it has in common with another one, such as a site's address, is left out. */
function idLabel(id, ids) {
  if (id.length <= LABEL) return id;
  const shared = Math.max(0, ...ids.filter((other) => other !== id).map((other) => sharedStart(id, other)));
  return shared > 7 ? `…${shortId(id.slice(shared), LABEL - 1)}` : shortId(id, LABEL);
}

/** How many UTF-16 units two texts begin with in common, up to the last mark between words. */
function sharedStart(text, other) {
  let size = 0;
  while (size < text.length && text[size] === other[size]) size += 1;
  return text.slice(0, size).search(/[/:_.#?=-][^/:_.#?=-]*$/) + 1;
}

/** Bars of the answers with evidence in a passage and, behind them, of the rows that retrieved it. */
export function drawPassages(width, uses) {
  const title = (use) =>
    `${use.title ? `${use.title}\n` : ""}${use.passage_id}\nevidence in ${plural(use.answers, "answer")}${use.retrieved === null ? "" : `, retrieved ${plural(use.retrieved, "time")}`}`;
  const size = (use) => Math.max(use.answers, use.retrieved ?? 0);
  const label = (use) =>
    use.retrieved === null
      ? number.format(use.answers)
      : `${number.format(use.answers)} of ${number.format(use.retrieved)}`;
  return draw(width, {
    height: 30 + uses.length * barHeight(uses.length),
    marginLeft: Math.min(170, width * 0.36),
    marginRight: 60,
    marginTop: 4,
    marginBottom: 4,
    x: {domain: [0, Math.max(1, ...uses.map(size))], axis: null},
    y: {domain: uses.map((use) => use.passage_id), label: null, tickSize: 0, tickFormat: labels(uses)},
    marks: [
      Plot.barX(uses, {
        y: "passage_id",
        x: (use) => use.retrieved ?? 0,
        fill: "var(--rest)",
        insetTop: 4,
        insetBottom: 4,
      }),
      Plot.barX(uses, {
        y: "passage_id",
        x: "answers",
        fill: "var(--bar)",
        insetTop: 7,
        insetBottom: 7,
        title,
        tip: {format: {x: false, y: false}},
      }),
      Plot.text(uses, {y: "passage_id", x: size, text: label, dx: 6, textAnchor: "start", fill: "var(--ink)"}),
      Plot.ruleX([0], {stroke: "var(--line)"}),
    ],
  });
}

export function drawReasons(width, reasons) {
  return draw(width, {
    height: 30 + reasons.length * barHeight(reasons.length),
    marginLeft: Math.min(170, width * 0.42),
    marginRight: 44,
    marginTop: 4,
    marginBottom: 4,
    x: {axis: null},
    y: {domain: reasons.map((one) => one.reason), label: null, tickSize: 0},
    marks: [
      Plot.barX(reasons, {y: "reason", x: "rows", fill: "var(--bar)", insetTop: 4, insetBottom: 4, className: "pick"}),
      Plot.text(reasons, {
        y: "reason",
        x: "rows",
        text: (one) => number.format(one.rows),
        dx: 6,
        textAnchor: "start",
        fill: "var(--ink)",
      }),
      Plot.ruleX([0], {stroke: "var(--line)"}),
    ],
  });
}
