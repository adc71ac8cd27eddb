// Marks from files that this page, or one of another audit of the same answers, has saved: CSV or JSONL.

import {keepMarks, MARKS, takeMark} from "./marks.js";
import {items} from "./page_data.js";
import {plural} from "./texts.js";

/** Take the marks of a file; a sentence that says what became of them. Newer marks stay. */
export async function importMarks(file) {
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
    else if (takeMark(...place, entryOf(row))) taken += 1;
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

function entryOf(row) {
  return {
    mark: MARKS.includes(row.mark) ? row.mark : "",
    note: row.note ?? "",
    at: row.marked_at ?? "",
    by: row.reviewer ?? "",
  };
}
