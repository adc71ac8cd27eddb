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

const LONGEST_ID = 40;

/** An id; the middle of a long one is left out, and a button copies the whole. */
export function copyable(id) {
  if (id.length <= LONGEST_ID) return el("bdi", {}, id);
  const copy = (event) => {
    event.stopPropagation();
    navigator.clipboard?.writeText(id).then(() => announce("Copied"));
  };
  return [
    el("bdi", {title: id}, shortId(id)),
    el("button", {type: "button", class: "link copy", "aria-label": `Copy ${id}`, onclick: copy}, "copy"),
  ];
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
