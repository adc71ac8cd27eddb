// One card per plot: what it shows in words, the drawing, and its figures as a table.

import {byId, el} from "./elements.js";
import {audit, plotData, SUPPORTS} from "./page_data.js";
import {
  drawMasses,
  drawPassages,
  drawRanks,
  drawReasons,
  drawShares,
  drawTimeline,
  spansOf,
  timeLabel,
} from "./plots.js";
import {NOTHING, number, percent, plural, shortened} from "./texts.js";

const drawings = [];

/** Show all plots; a click on a bar calls ``pick`` with the filters that it stands for. */
export function showPlots(pick) {
  const {timeline, masses, support_scores: scores, shares, ranks, passages} = plotData;
  const cards = [
    timelineCard(timeline),
    scoreCard(scores),
    massCard(masses),
    rankCard(ranks),
    ...passageCards(passages),
    ...shares.map((share) => shareCard(share, pick)),
    reasonCard(audit.dead_letters, pick),
  ];
  byId("plots").replaceChildren(...cards.filter(Boolean));
  new ResizeObserver(redraw).observe(byId("plots"));
}

function card({title, sub, draw, table, size = "", onPick = null}) {
  const canvas = el("div", {class: "canvas"});
  const head = el("h3", {dir: "auto"}, title);
  drawings.push({canvas, draw, title, onPick, width: 0});
  return el(
    "section",
    {class: `plot ${size}`},
    head,
    el("p", {class: "sub", dir: "auto"}, sub),
    canvas,
    table && el("details", {}, el("summary", {}, "As a table"), table),
  );
}

/** Draw the plots that are visible and whose width has changed. */
export function redraw() {
  for (const drawing of drawings) {
    const width = drawing.canvas.clientWidth;
    if (!width || width === drawing.width) continue;
    drawing.width = width;
    const node = drawing.draw(width);
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", drawing.title);
    // A plain g element must not have a name.
    for (const part of node.querySelectorAll("g[aria-label]")) part.removeAttribute("aria-label");
    drawing.canvas.replaceChildren(node);
    if (drawing.onPick) letPick(node, drawing.onPick);
  }
}

/** Make the bars of groups react to clicks. */
function letPick(node, onPick) {
  for (const bar of node.querySelectorAll("g.pick rect"))
    bar.addEventListener("click", () => onPick(bar.__data__, "unsupported"));
}

function figureTable(caption, heads, rows) {
  const head = el(
    "tr",
    {},
    heads.map((name) => el("th", {scope: "col"}, name)),
  );
  const body = rows.map(([name, ...cells]) =>
    el(
      "tr",
      {},
      el("th", {scope: "row", dir: "auto"}, name),
      cells.map((cell) => el("td", {}, cell)),
    ),
  );
  return el(
    "div",
    {class: "table-box", tabindex: 0, role: "region", "aria-label": caption},
    el("table", {}, el("thead", {}, head), el("tbody", {}, body)),
  );
}

function supportCells(counts) {
  return SUPPORTS.map((support) => number.format(counts[support]));
}

/** Left out where all claims are of one day or whatever the unit is: a single bar says nothing. */
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
    table: figureTable("When answers were given", [timeline.unit, ...SUPPORTS], rows),
  });
}

/** Left out if no span has an evidence mass, as with methods that are not attention. */
function massCard(masses) {
  if (!masses.length) return null;
  const lines = Object.values(audit.thresholds).filter(Boolean).map(Number);
  return card({
    title: "Evidence mass",
    sub: `Claims by the share of their attention that lies on evidence${lines.length ? "; dotted lines are the thresholds" : ""}.`,
    draw: (width) => drawMasses(width, masses, "mass", lines),
    table: massTable("Evidence mass", "mass", masses),
  });
}

/** Left out where no claim has a score. */
function scoreCard(scores) {
  if (!scores.length) return null;
  return card({
    title: "Support score",
    sub: "Claims by the calibrated probability that the passages support them.",
    draw: (width) => drawMasses(width, scores, "score", []),
    table: massTable("Support score", "score", scores),
  });
}

function massTable(title, name, masses) {
  const rows = masses.map((counts, index) => [
    `${(index / masses.length).toFixed(3)} to ${((index + 1) / masses.length).toFixed(3)}`,
    ...supportCells(counts),
  ]);
  return figureTable(title, [name, ...SUPPORTS], rows);
}

const COLUMN_TITLES = {generator: "Unsupported by generator", span_kind: "Unsupported by kind of span"};

/** Left out where there is nothing to compare: a single group, or no unsupported claim in any. */
function shareCard(share, pick) {
  if (share.groups.length < 2 || !share.groups.some((group) => group.counts.unsupported)) return null;
  const title = COLUMN_TITLES[share.column] ?? `Unsupported by ${share.column}`;
  const worst = share.groups[0];
  const rest = share.other_values ? ` ${plural(share.other_values, "smaller value")} not drawn.` : "";
  const sub = `Highest for ${shortened(worst.value ?? NOTHING, 30)}: ${plural(worst.counts.unsupported, "claim")} of ${number.format(spansOf(worst.counts))}.${rest}`;
  const rows = share.groups.map((group) => [
    group.value ?? NOTHING,
    ...supportCells(group.counts),
    percent.format(group.counts.unsupported / spansOf(group.counts)),
  ]);
  if (share.other_values)
    rows.push([
      `${share.other_values} others`,
      ...supportCells(share.others),
      percent.format(share.others.unsupported / spansOf(share.others)),
    ]);
  const filter = {generator: "generator", span_kind: "kind"}[share.column];
  const filters = (value) => (filter ? {[filter]: value ?? ""} : {columns: {[share.column]: value}});
  const onPick = (index, support) => pick({...filters(share.groups[index].value), support});
  return card({
    title,
    sub,
    onPick,
    draw: (width) => drawShares(width, share.groups),
    table: figureTable(title, [share.column, ...SUPPORTS, "share"], rows),
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
    number.format(one.best),
  ]);
  return card({
    title: "Which place in the prompt is used",
    sub,
    draw: (width) => drawRanks(width, ranks),
    table: figureTable("Which place in the prompt is used", ["place", "claims", "with evidence", "best"], rows),
  });
}

function passageCards({most_used: most, least_used: least, passage_count: count, per_row_ids: perRow}) {
  const heads = ["passage", "answers", "retrieved"];
  const left = perRow ? ` ${plural(perRow, "id")} left out: each names another passage in every row.` : "";
  const rows = (uses) =>
    uses.map((use) => [
      use.title ? `${use.title} (${use.passage_id})` : use.passage_id,
      number.format(use.answers),
      use.retrieved === null ? "–" : number.format(use.retrieved),
    ]);
  const cards = [];
  if (most.length > 1)
    cards.push(
      card({
        title: "Most used passages",
        sub: `Answers with evidence in a passage, of ${plural(count, "passage")} with an id.${left}`,
        draw: (width) => drawPassages(width, most),
        table: figureTable("Most used passages", heads, rows(most)),
      }),
    );
  if (least.length > 1)
    cards.push(
      card({
        title: "Least used passages",
        sub: "Retrieved most often among those that answers draw on least.",
        draw: (width) => drawPassages(width, least),
        table: figureTable("Least used passages", heads, rows(least)),
      }),
    );
  return cards;
}

/** Left out for a single reason, which the figure at the top names. */
function reasonCard(deadLetters, pick) {
  if (deadLetters.length < 2) return null;
  const rows = deadLetters.map((one) => [one.reason, number.format(one.rows)]);
  const onPick = (index) => pick({reason: deadLetters[index].reason});
  return card({
    title: "Dead letters by reason",
    sub: "Rows of the log that could not be audited.",
    onPick,
    draw: (width) => drawReasons(width, deadLetters),
    table: figureTable("Dead letters by reason", ["reason", "rows"], rows),
  });
}
