// The menu of marks: who marks, how far they are, and marks to files, from files, and away.

import {announce, byId, el} from "./elements.js";
import {
  clearMarks,
  keepMarks,
  keepReviewer,
  labelOf,
  MARKS,
  markKey,
  marks,
  showMarkCount,
  showReviewer,
  takeMark,
} from "./marks.js";
import {audit, items, spanText} from "./page_data.js";
import {plural} from "./texts.js";
import {refresh} from "./views.js";

export function watchMarkMenu() {
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

/** The first click asks, the second clears. */
function clear() {
  const button = byId("mark-clear");
  if (button.dataset.asked === undefined) return askToClear(true);
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

// Marks as files: CSV for spreadsheets, JSONL and Parquet for programs.

const MARK_COLUMNS = [
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
  ["audit", "STRING"],
];

/** One row per mark, in the order of the worklist; marks of whole answers leave the span columns empty. */
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
    audit: audit.key,
  };
}

/** A field, quoted if needed; one that a spreadsheet would take for a formula gets a leading apostrophe. */
function csvText(rows) {
  const names = MARK_COLUMNS.map(([name]) => name);
  const lines = [names, ...rows.map((row) => names.map((name) => csvField(row[name])))];
  return `${lines.map((line) => line.join(",")).join("\r\n")}\r\n`;
}

function csvField(value) {
  if (value === null) return "";
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function jsonlText(rows) {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
}

function parquetBytes(rows) {
  return ParquetWriter.parquetWriteBuffer({
    columnData: MARK_COLUMNS.map(([name, type]) => ({
      name,
      type,
      nullable: true,
      data: rows.map((row) => parquetValue(row[name], type)),
    })),
  });
}

function parquetValue(value, type) {
  if (value === null) return null;
  if (type === "INT64") return BigInt(value);
  return type === "TIMESTAMP" ? new Date(value) : value;
}

const MARK_FILES = {
  csv: ["text/csv", (rows) => `\ufeff${csvText(rows)}`],
  jsonl: ["application/x-ndjson", jsonlText],
  parquet: ["application/vnd.apache.parquet", parquetBytes],
};

function saveMarks(format) {
  const [type, write] = MARK_FILES[format];
  const address = URL.createObjectURL(new Blob([write(markRows())], {type}));
  el("a", {href: address, download: `marks-${audit.key}.${format}`}).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// Marks from files that this page, or one of another audit of the same answers, has saved: CSV or JSONL.

/** Take the marks of a file; a sentence that says what became of them. Newer marks stay. */
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
  for (const row of rows) {
    const place = placeOf(row);
    if (!place) strange += 1;
    else if (takeMark(...place, entryOf(row, ...place))) taken += 1;
    else older += 1;
  }
  keepMarks();
  const rest = [
    older ? `${older} not newer than those here` : "",
    strange ? `${strange} of answers or spans that are not on this page` : "",
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
  return text
    .split("\n")
    .filter((line) => line.trim())
    .map((line, index) => {
      try {
        return JSON.parse(line);
      } catch {
        throw new Error(`line ${index + 1} is no JSON`);
      }
    });
}

/** The rows of a CSV text by the names of its columns; the apostrophe before a formula is taken away. */
function csvRows(text) {
  const [names, ...lines] = csvLines(text);
  return lines.map((line) => Object.fromEntries(names.map((name, place) => [name, unquoted(line[place] ?? "")])));
}

function unquoted(field) {
  return /^'[=+\-@\t\r]/.test(field) ? field.slice(1) : field;
}

function csvLines(text) {
  const lines = [];
  let fields = [];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^,\r\n]*))(,|\r?\n|$)/g)) {
    fields.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === ",") continue;
    if (fields.some(Boolean)) lines.push(fields);
    fields = [];
  }
  return lines;
}

/** [item, index of the span or null], or null if the page has no such place. */
function placeOf(row) {
  const item =
    items.find(
      (one) => one.file === row.source_file && one.row === Number(row.source_row) && one.id === row.record_id,
    ) ?? items.find((one) => one.id !== null && one.id === row.record_id);
  if (!item) return null;
  if (row.span_index === null || row.span_index === "" || row.span_index === undefined) return [item, null];
  const fits = (span) => span.at[0] === Number(row.char_start) && span.at[1] === Number(row.char_end);
  const same = item.spans.findIndex((span) => span.index === Number(row.span_index) && fits(span));
  const index = same < 0 ? item.spans.findIndex(fits) : same;
  return index < 0 ? null : [item, index];
}

/** What a row says of a place. Its label decides: "right" means something else where this page has another verdict. */
function entryOf(row, item, spanIndex) {
  const labelled = row.label ? MARKS.find((mark) => labelOf(item, spanIndex, mark) === row.label) : undefined;
  return {
    mark: labelled ?? (MARKS.includes(row.mark) ? row.mark : ""),
    note: row.note ?? "",
    at: row.marked_at ?? "",
    by: row.reviewer ?? "",
  };
}
