// Marks: what a person thinks of the verdict on an answer or a span. The browser stores them under the audit's key.

import {lacksSupport} from "./claims.js";
import {byId} from "./elements.js";
import {audit, items} from "./page_data.js";
import {number, plural} from "./texts.js";

export const MARKS = ["right", "wrong", "unsure"];
const STORE = `attribeam-marks-${audit.key}`;
const REVIEWER = "attribeam-reviewer";
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

/** {mark, note, at, by}; mark, note and by may be empty. */
export function markOf(item, spanIndex) {
  return marks.get(markKey(item, spanIndex)) ?? {mark: "", note: "", at: "", by: ""};
}

/** Change mark or note; an entry with neither is dropped. */
export function setMark(item, spanIndex, change) {
  const key = markKey(item, spanIndex);
  const next = {...markOf(item, spanIndex), ...change, at: new Date().toISOString(), by: reviewer()};
  if (next.mark || next.note) marks.set(key, next);
  else marks.delete(key);
  keepMarks();
}

/** Take a mark from a file, unless there is a newer one; whether it was taken. */
export function takeMark(item, spanIndex, found) {
  const key = markKey(item, spanIndex);
  if (marks.has(key) && marks.get(key).at >= found.at) return false;
  marks.set(key, found);
  return true;
}

export function clearMarks() {
  marks.clear();
  keepMarks();
}

/**
 * What a mark says about the claim or the answer itself: "supported", "unsupported", or null if it says nothing.
 * A right mark on a weak claim says that it lacks support. An answer is flagged if one of its claims is unsupported.
 */
export function labelOf(item, spanIndex, mark) {
  if (!["right", "wrong"].includes(mark)) return null;
  const flagged = spanIndex === null ? answerFlagged(item) : claimLacks(item, spanIndex);
  if (flagged === undefined) return null;
  return (mark === "right") === (flagged === true) ? "unsupported" : "supported";
}

/** Whether the verdict flags the answer; null without a verdict, undefined where there is nothing to judge. */
export function answerFlagged(item) {
  const {unsupported = 0, weak = 0, supported = 0, not_calibrated: open = 0} = item.counts;
  if (item.kind !== "answer" || item.answer_kind === "refusal") return undefined;
  if (unsupported + weak + supported) return unsupported > 0;
  return open ? null : undefined;
}

/** Likewise for a claim, or a span within one. */
export function claimLacks(item, spanIndex) {
  const span = item.spans[spanIndex];
  if (span.claim === null) return undefined;
  return lacksSupport(span);
}

/** "right", "wrong", "unsure", "noted" or "" for the item and all its spans together. */
export function itemMark(item) {
  const all = [null, ...item.spans.keys()].map((spanIndex) => markOf(item, spanIndex));
  const own = all[0].mark || all.map((one) => one.mark).find(Boolean);
  return own || (all.some((one) => one.note) ? "noted" : "");
}

/** Who marks, as told in the menu; "" if nobody said so. */
export function reviewer() {
  return byId("reviewer").value.trim();
}

export function tellReviewer(name) {
  byId("reviewer").value = name;
  keepReviewer();
}

export function showReviewer() {
  try {
    byId("reviewer").value = localStorage.getItem(REVIEWER) ?? "";
  } catch {
    // Without storage, the name lasts as long as the page.
  }
}

export function keepReviewer() {
  try {
    localStorage.setItem(REVIEWER, reviewer());
  } catch {
    // As above.
  }
}

export function keepMarks() {
  try {
    localStorage.setItem(STORE, JSON.stringify(Object.fromEntries(marks)));
  } catch {
    byId("mark-store").textContent =
      "This browser keeps no marks for this page: save them to a file before you close it.";
  }
  showMarkCount();
}

/** How many marks there are, and how far through the worklist they go. */
export function showMarkCount() {
  byId("mark-count").textContent = number.format(marks.size);
  const marked = items.filter((item) => itemMark(item)).length;
  byId("mark-progress").max = Math.max(1, items.length);
  byId("mark-progress").value = marked;
  byId("mark-progress-text").textContent =
    `${plural(marked, "row")} of ${number.format(items.length)} on this page marked; ${plural(marks.size, "mark")} in all.`;
  for (const button of document.querySelectorAll("[data-needs-marks]")) button.disabled = !marks.size;
}
