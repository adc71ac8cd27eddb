// Starts the page: colours, keys, and what watches its parts. The figures at the top are on the screen before this runs.

import {announce, byId} from "./elements.js";
import {fillFilters, resetFilters} from "./filters.js";
import {holdPassages, pin, pinNeighbour, watchHighlights} from "./highlights.js";
import {toggleMark} from "./mark_bar.js";
import {watchMarkMenu} from "./mark_menu.js";
import {selection} from "./page_data.js";
import {showPlots} from "./plot_cards.js";
import {fillWords} from "./texts.js";
import {filter, go, inAnswers, showFiltered, showView} from "./views.js";
import {address, neighbour, showFirst, updateWorklist, watchList} from "./worklist.js";

const THEMES = ["", "light", "dark"];
const THEME_NAMES = {"": "as the system", light: "light", dark: "dark"};

/** Switch from the system's colours to light, to dark, and back. */
function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "") + 1) % THEMES.length]);
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  byId("theme-button").setAttribute("aria-label", `Colours: ${THEME_NAMES[theme]}`);
  byId("theme-button").textContent = {"": "◐", light: "☀", dark: "☾"}[theme];
  try {
    localStorage.setItem("attribeam-theme", theme);
  } catch {
    // Without storage, the choice lasts as long as the page.
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

// Keyboard shortcuts. They do nothing while a field has the focus or a dialog is open.

const KEYS = {
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
  Escape: () => selection.item && pin(null),
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

/** Open the next or previous item of the worklist. */
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
requestAnimationFrame(() =>
  setTimeout(() => {
    showPlots(showFiltered);
    showView();
    document.documentElement.dataset.ready = "";
  }),
);
