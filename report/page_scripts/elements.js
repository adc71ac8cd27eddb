// Makes elements. Text from logs reaches the page only through here, as text nodes and attributes, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element; children are nodes or texts, and attributes that are null or false are left out. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** An SVG element, made like the others. */
function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export function byId(id) {
  return document.getElementById(id);
}

/** A bar that fills ``share`` (0 to 1) of its width. */
export function shareBar(share, kind = "") {
  const width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return svg("svg", {"aria-hidden": "true"}, svg("rect", {class: kind, width, height: "100%"}));
}

export const LONGEST_ID = 40;

/** An id; the middle of a long one is left out, and a button copies the whole. */
export function copyable(id) {
  if (id.length <= LONGEST_ID) return el("bdi", {}, id);
  return [el("bdi", {title: id}, shortId(id)), copyButton(id, `Copy ${id}`)];
}

/** A button that copies a text, or what a function gives, and says so. */
export function copyButton(text, name, shown = "copy") {
  const copy = (event) => {
    event.stopPropagation();
    const button = event.currentTarget;
    copyText(typeof text === "function" ? text() : text).then((done) => {
      announce(done ? "Copied" : "The browser did not let the page copy");
      button.textContent = done ? "copied" : "not copied";
      setTimeout(() => button.replaceChildren(shown), 1500);
    });
  };
  return el("button", {type: "button", class: "link copy", "aria-label": name, onclick: copy}, shown);
}

/** Whether the text went to the clipboard; pages from files may have to go the older way. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = el("textarea", {class: "unseen", "aria-hidden": "true"});
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

/** The start and the end of a long id. */
export function shortId(id, size = LONGEST_ID) {
  const points = [...id];
  if (points.length <= size) return id;
  const end = Math.floor((size - 1) / 2);
  return `${points.slice(0, size - 1 - end).join("")}…${points.slice(-end).join("")}`;
}

/** Announce a text to screen readers. */
export function announce(text) {
  byId("announcer").textContent = text;
}
