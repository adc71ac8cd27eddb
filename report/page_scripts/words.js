// What the page's words mean, in plain words: as tooltips, and in the help.

import {byId, el} from "./elements.js";

export const MEANINGS = {
  claim: "A statement of the answer. It has one verdict, and names and numbers within it take that verdict.",
  supported: "The passages say what the claim says.",
  weak: "The passages may say it; have a look. The mark “right” says that it lacks support.",
  unsupported: "The passages do not say it, or say something else. An answer with such a claim is flagged.",
  reason:
    "Why a claim is unsupported: not in passages; the evidence has another value, entity (person, place, thing) or time; one of the two is negated; or it is reversed, as in who paid whom.",
  how: "How a claim is supported: quoted word by word, paraphrased in other words, or combined from several sentences.",
  "no claim": "Headings, questions, words about the answer itself: there is nothing to support.",
  "not judged": "Another language, code or a table, which cannot be judged here.",
  "not calibrated": "There are no thresholds for this model yet, so claims have no verdict.",
  "answer risk":
    "How likely the answer has an unsupported claim, from 0 to 100. The foot of the overview says how it was found.",
  "support score": "A calibrated probability that the passages support the claim, from 0 to 1.",
  "evidence mass": "The share of the claim's attention that lies on evidence, from 0 to 1.",
  margin: "How far the best passage leads: its share of all scores minus the share of the second.",
  "dead letter": "A row of the log that could not be audited; it comes with the reason.",
};

/** A text with what it means as its tooltip. */
export function term(word, text = word) {
  return el("abbr", {title: MEANINGS[word]}, text);
}

export function fillWords() {
  byId("words").append(
    ...Object.entries(MEANINGS).map(([word, meaning]) => el("div", {}, el("dt", {}, word), el("dd", {}, meaning))),
  );
}
