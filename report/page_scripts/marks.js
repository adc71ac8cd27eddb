// Marks: what a person thinks of an answer or a span. The browser stores them under the audit's key.

import {byId} from "./elements.js";
import {audit} from "./page_data.js";
import {number} from "./texts.js";

export const MARKS = ["right", "wrong", "unsure"];
const STORE = `attribeam-marks-${audit.key}`;
export const marks = new Map(Object.entries(storedMarks()));

function storedMarks() {
  try {
    return JSON.parse(localStorage.getItem(STORE) ?? "{}");
  } catch {
    return {};
  }
}

/** ``spanIndex`` is null for the answer as a whole. */
export function markKey(item, spanIndex) {
  return JSON.stringify([item.file, item.row, spanIndex]);
}

/** {mark, note, at}; mark and note may be empty. */
export function markOf(item, spanIndex) {
  return marks.get(markKey(item, spanIndex)) ?? {mark: "", note: "", at: ""};
}

/** Change mark or note; an entry with neither is dropped. */
export function setMark(item, spanIndex, change) {
  const key = markKey(item, spanIndex);
  const next = {...markOf(item, spanIndex), ...change, at: new Date().toISOString()};
  if (next.mark || next.note) marks.set(key, next);
  else marks.delete(key);
  keepMarks();
}

/** "right", "wrong", "unsure", "noted" or "" for the item and all its spans together. */
export function itemMark(item) {
  const all = [null, ...item.spans.keys()].map((spanIndex) => markOf(item, spanIndex));
  const own = all[0].mark || all.map((one) => one.mark).find(Boolean);
  return own || (all.some((one) => one.note) ? "noted" : "");
}

function keepMarks() {
  try {
    localStorage.setItem(STORE, JSON.stringify(Object.fromEntries(marks)));
  } catch {
    byId("mark-store").textContent =
      "This browser keeps no marks for this page: save them to a file before you close it.";
  }
  showMarkCount();
}

export function showMarkCount() {
  byId("mark-count").textContent = number.format(marks.size);
}
