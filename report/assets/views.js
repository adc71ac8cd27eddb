// Which view is shown: it stands in the address, so that the browser's back and forward work.

let current = null;

function inAnswers() {
  return !byId("view-answers").hidden;
}

function go(place) {
  if (location.hash !== place) location.hash = place;
  show(); // at once, for the next key may come before the browser tells of the change
}

function show() {
  const [, view = "", number = ""] = /^#(\w*)\/?(\d*)$/.exec(location.hash) ?? [];
  const answers = view === "answers";
  byId("view-overview").hidden = answers;
  byId("view-answers").hidden = !answers;
  for (const link of document.querySelectorAll("[data-view]")) link.toggleAttribute("aria-current", (link.dataset.view === "answers") === answers);
  document.querySelector("[data-view][aria-current]")?.setAttribute("aria-current", "page");
  if (answers) showAnswers(number);
  else redraw();
}

function showAnswers(place) {
  const wanted = place ? items[Number(place) - 1] : wide() ? current ?? listed[0] : null;
  byId("view-answers").classList.toggle("open", Boolean(place));
  if (wanted) open(wanted);
  else if (!current) byId("detail").replaceChildren(el("p", {class: "hint"}, "Choose an answer."));
}

function wide() {
  return matchMedia("(min-width: 54.01rem)").matches;
}

/** Show one item beside the list. */
function open(item) {
  if (current !== item) {
    current = item;
    pinned = null;
    byId("detail").replaceChildren(...(item.kind === "answer" ? answerView(item) : letterView(item)).filter(Boolean));
    byId("detail").scrollTop = 0;
    if (item.kind === "answer") showScores(null);
    announce(`${listed.indexOf(item) + 1} of ${listed.length}: ${item.question ?? item.id ?? "row"}`);
  }
  showMarkBar();
  showCurrent();
}

const THEMES = ["", "light", "dark"];
const THEME_NAMES = {"": "as the system", light: "light", dark: "dark"};

/** Go from the system's colours to light, to dark, and back. */
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
    // without a store the choice lasts as long as the page
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
