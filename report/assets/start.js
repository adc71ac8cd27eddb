// Sets everything going. The figures at the top are on the screen before this runs.

setTheme(storedTheme());
fillFilters();
showFirst();
updateWorklist();
watchList();
watchLights();
showMarkCount();
byId("theme-button").addEventListener("click", nextTheme);
byId("help-button").addEventListener("click", () => byId("help").showModal());
byId("filter-reset").addEventListener("click", () => {
  resetFilters();
  updateWorklist();
});
byId("filter-text").addEventListener("input", updateWorklist);
for (const name of [...FILTERS, "order"]) byId(`filter-${name}`).addEventListener("change", updateWorklist);
for (const button of document.querySelectorAll("[data-export]")) button.addEventListener("click", () => saveMarks(button.dataset.export));
addEventListener("keydown", pressed);
addEventListener("hashchange", show);
requestAnimationFrame(() => setTimeout(() => {
  showPlots();
  show();
  document.documentElement.dataset.ready = "";
}));
