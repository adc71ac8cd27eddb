// Marks as files: CSV for spreadsheets, JSONL and Parquet for programs.

import {el} from "./elements.js";
import {labelOf, markKey, marks} from "./marks.js";
import {audit, items, spanText} from "./page_data.js";

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

export function saveMarks(format) {
  const [type, write] = MARK_FILES[format];
  const address = URL.createObjectURL(new Blob([write(markRows())], {type}));
  el("a", {href: address, download: `marks-${audit.key}.${format}`}).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
