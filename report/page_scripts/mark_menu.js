// The menu of marks: who marks, how far they are, and marks to files, from files, and away.

import {announce, byId} from "./elements.js";
import {saveMarks} from "./mark_files.js";
import {importMarks} from "./mark_import.js";
import {clearMarks, keepReviewer, marks, showMarkCount, showReviewer} from "./marks.js";
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
