// Starts the page. The figures at the top are on the screen before this runs.

import {byId} from "./elements.js";
import {fillFilters, resetFilters} from "./filters.js";
import {watchHighlights} from "./highlights.js";
import {pressed} from "./keys.js";
import {watchMarkMenu} from "./mark_menu.js";
import {holdPassages} from "./passage_places.js";
import {showPlots} from "./plot_cards.js";
import {nextTheme, setTheme, storedTheme} from "./theme.js";
import {filter, showFiltered, showView} from "./views.js";
import {fillWords} from "./words.js";
import {showFirst, updateWorklist, watchList} from "./worklist.js";

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
