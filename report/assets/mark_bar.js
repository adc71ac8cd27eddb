// The bar under an answer: its mark and note, or those of the chosen span.

const MARK_KEYS = {right: "r", wrong: "w", unsure: "u"};

function markBar() {
  const buttons = MARKS.map((mark) => el("button", {type: "button", "data-mark": mark, "aria-pressed": "false", "aria-keyshortcuts": MARK_KEYS[mark], onclick: () => toggleMark(mark)}, mark[0].toUpperCase() + mark.slice(1), el("kbd", {"aria-hidden": "true"}, MARK_KEYS[mark])));
  const note = el("input", {type: "text", id: "note", placeholder: "Note", "aria-label": "Note", "aria-keyshortcuts": "n", oninput: (event) => noted(event.target.value)});
  return el("div", {class: "mark-bar", role: "group", "aria-label": "Mark"}, el("bdi", {class: "of", id: "mark-of"}), buttons, note);
}

function showMarkBar() {
  const {mark, note} = markOf(current, pinned);
  const what = current.kind === "letter" ? "This row" : pinned === null ? "This answer" : `“${shortened(spanText(current, current.spans[pinned]), 40)}”`;
  byId("mark-of").textContent = what;
  byId("note").value = note;
  for (const button of byId("detail").querySelectorAll("[data-mark]")) button.setAttribute("aria-pressed", String(button.dataset.mark === mark));
}

function toggleMark(mark) {
  if (!current) return;
  const next = markOf(current, pinned).mark === mark ? "" : mark;
  setMark(current, pinned, {mark: next});
  showMarkBar();
  refreshRow(current);
  if (pinned !== null) refreshSpanBadge();
  announce(next ? `Marked as ${next}` : "Mark taken away");
}

function noted(note) {
  setMark(current, pinned, {note});
  refreshRow(current);
}

function refreshSpanBadge() {
  const meta = byId("detail").querySelector(`[data-span="${pinned}"] .span-meta`);
  meta.querySelector(".mark-badge")?.remove();
  const {mark} = markOf(current, pinned);
  if (mark) meta.append(el("span", {class: "mark-badge"}, mark));
}
