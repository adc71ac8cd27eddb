"""The answer of a training row: clauses of known origin, slightly reworded, and words that have none."""

import random
import re

from training.attributor_corpus import Corpus
from training.attributor_wording import Answer, write_word

CharRange = tuple[int, int]
WORD = re.compile(r"\S+")
INVENTION_SHARE = 0.04
CONNECTOR_SHARE = 0.2
CITATION_SHARE = 0.1
TITLE_SHARE = 0.2
BOLD_SHARE = 0.08
RUN_WORDS = (1, 2, 3, 4, 6, 8, 8, 12, 12, 20)
CONNECTORS = (
    "According to the first source, ", "Also, ", "In addition, ", "However, ", "One source states that ",
    "Another source says ", "It is ", "There are several answers. ", "Meanwhile, ", "The answer is ",
    "This is because ", "In terms of ", "Yes, ", "For example, ", "Based on the passages, ", "- ", "The ",
)  # fmt: skip
LINKS = (
    " ", " ", ", ", ", ", ". ", ". ", ". ", " and ", " was ", " is ", ", which ", "; ", " in ", " while ", "\n",
    ", also known as ", " is known as ", " or ", " has ", " of ", " for ", " but ", ".\n- ", ". It ", " by ",
)  # fmt: skip
TITLE_LINKS = (" ", " was ", " is ", ", ", " in ")
RUN_LINKS = (" ", " ", ", ", " and ", " that ", " was ")


def write_answer(
    prompt: str, quotable: list[list[CharRange]], corpus: Corpus, rng: random.Random, *, char_budget: int
) -> Answer:
    """Stitch an answer of about ``char_budget`` characters from the prompt.

    ``quotable`` has, for each passage to be quoted, the ranges of its title, if any, and of its sentences.
    """
    answer = Answer()
    while len(answer.text) < char_budget:
        if rng.random() < INVENTION_SHARE:
            write_invention(answer, corpus, rng)
        if rng.random() < CONNECTOR_SHARE:
            answer.invent(rng.choice(CONNECTORS))
        quote_passage(answer, prompt, rng.choice(quotable), rng)
        if rng.random() < CITATION_SHARE:
            answer.invent(f" [{rng.randint(1, 30)}]")
        answer.invent(rng.choice(LINKS))
    return answer


def write_invention(answer: Answer, corpus: Corpus, rng: random.Random) -> None:
    """Append a few words of some other page: a claim without support."""
    start = len(answer.text)
    answer.invent(" ".join(corpus.random_words(rng, rng.randint(2, 7))))
    answer.claim(start, supported=False)
    answer.invent(rng.choice(LINKS))


def quote_passage(answer: Answer, prompt: str, ranges: list[CharRange], rng: random.Random) -> None:
    """Append one to three runs of words of one sentence, now and then behind the passage's title."""
    noise = rng.choice([0.0, 0.0, 0.5, 1.0, 2.0])
    if rng.random() < TITLE_SHARE:
        quote_run(answer, prompt, [ranges[0]], rng, noise=0.0)
        answer.invent(rng.choice(TITLE_LINKS))
    words = word_ranges(prompt, rng.choice(ranges))
    position = 0 if rng.random() < 0.4 else rng.randrange(len(words))
    for turn in range(rng.choice([1, 1, 2, 3])):
        length = rng.choice(RUN_WORDS)
        run = words[position : position + length]
        if not run:
            break
        if turn:
            answer.invent(rng.choice(RUN_LINKS))
        quote_run(answer, prompt, run, rng, noise=noise)
        position += length + rng.choice([0, 1, 2, 4])


def word_ranges(prompt: str, char_range: CharRange) -> list[CharRange]:
    """The ranges in ``prompt`` of the words that stand in ``char_range``."""
    start, end = char_range
    return [(start + word.start(), start + word.end()) for word in WORD.finditer(prompt[start:end])]


def quote_run(answer: Answer, prompt: str, words: list[CharRange], rng: random.Random, *, noise: float) -> None:
    """Append neighbouring words, perhaps in bold, perhaps with a small first letter or all of them small."""
    bold = "**" if rng.random() < BOLD_SHARE else ""
    small_first, small = rng.random() < 0.3, rng.random() < 0.05
    answer.invent(bold)
    start = len(answer.text)
    for index, (char_start, char_end) in enumerate(words):
        if index:
            answer.add_ignored(" ")
        text = prompt[char_start:char_end]
        if index == len(words) - 1:
            text = without_last_mark(text, rng)
        if small or (small_first and index == 0):
            text = lower_case(text)
        write_word(answer, text, char_start, rng, noise=noise)
    answer.claim(start, supported=True)
    answer.invent(bold)


def without_last_mark(text: str, rng: random.Random) -> str:
    """The word, mostly without the punctuation at its end."""
    return text.rstrip(".,;:") or text if rng.random() < 0.7 else text


def lower_case(text: str) -> str:
    """The word in small letters, unless that changes how long it is."""
    return text.lower() if len(text.lower()) == len(text) else text
