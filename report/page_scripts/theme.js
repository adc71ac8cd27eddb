// Light or dark: as the system asks, or as chosen with the button.

import {byId} from "./elements.js";

const THEMES = ["", "light", "dark"];
const THEME_NAMES = {"": "as the system", light: "light", dark: "dark"};

/** Switch from the system's colours to light, to dark, and back. */
export function nextTheme() {
  setTheme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "") + 1) % THEMES.length]);
}

export function setTheme(theme) {
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

export function storedTheme() {
  try {
    const theme = localStorage.getItem("attribeam-theme") ?? "";
    return THEMES.includes(theme) ? theme : "";
  } catch {
    return "";
  }
}
