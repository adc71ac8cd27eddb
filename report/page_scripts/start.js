// Starts the page. The figures at the top are on the screen before this runs.

import {byId} from "./elements.js";
import {FILTERS, fillFilters, resetFilters} from "./filters.js";
import {watchHighlights} from "./highlights.js";
import {pressed} from "./keys.js";
import {saveMarks} from "./mark_files.js";
import {showMarkCount} from "./marks.js";
import {showPlots} from "./plot_cards.js";
import {nextTheme, setTheme, storedTheme} from "./theme.js";
import {filter, showFiltered, showView} from "./views.js";
import {showFirst, updateWorklist, watchList} from "./worklist.js";

setTheme(storedTheme());
fillFilters();
showFirst();
updateWorklist();
watchList();
watchHighlights();
showMarkCount();
byId("theme-button").addEventListener("click", nextTheme);
byId("help-button").addEventListener("click", () => byId("help").showModal());
byId("filter-reset").addEventListener("click", () => {
  resetFilters();
  filter();
});
byId("filter-text").addEventListener("input", filter);
for (const name of [...FILTERS, "order"]) byId(`filter-${name}`).addEventListener("change", filter);
for (const button of document.querySelectorAll("[data-export]"))
  button.addEventListener("click", () => {
    saveMarks(button.dataset.export);
    byId("export-menu").open = false;
  });
addEventListener("keydown", pressed);
addEventListener("hashchange", showView);
requestAnimationFrame(() =>
  setTimeout(() => {
    showPlots(showFiltered);
    showView();
    document.documentElement.dataset.ready = "";
  }),
);
