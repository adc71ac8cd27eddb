// One dead letter: why the row could not be audited, and the way out.

function letterView(item) {
  return [
    crumbs(item, [`stage ${item.stage}`, item.column ? `column ${item.column}` : ""]),
    el("h2", {class: "question"}, `Not audited: ${item.reason.replaceAll("_", " ")}`),
    el("p", {class: "letter-message", dir: "auto"}, item.message),
    item.answer ? el("section", {class: "letter-answer", "aria-label": "Answer text"}, el("p", {class: "label"}, "Answer"), el("div", {class: "answer-text", dir: "auto"}, item.answer)) : null,
    markBar(item),
  ];
}
