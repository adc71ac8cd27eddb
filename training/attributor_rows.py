"""Training rows for the attributor: a prompt, an answer, and for each answer token where it comes from."""

import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tokenizers import Tokenizer

from training.attributor_answer import WORD, AnswerWriter, CharRange
from training.attributor_corpus import Corpus
from training.attributor_passages import Passage, draw_passages
from training.attributor_wording import IGNORED, NO_SOURCE, Answer

PROMPT_TEMPLATE = {
    "preamble": "",
    "titled_passage": "{title}\n{text}\n\n",
    "passage": "{text}\n\n",
    "question": "Question: {question}\nAnswer: ",
}
BOS_COLUMN = 0
CHARS_PER_TOKEN = 3.7
ROW_TOKENS = (192, 256, 384, 384, 512, 512, 768, 768, 1024, 1536, 2048, 3072)


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One rendered row, tokenised once as a whole.

    ``gold[i]`` are the columns that answer token ``answer_start + i`` must attend to: the tokens it was copied from,
    BOS (column 0) where it has no source, none where it is not to be learned. ``offsets`` are half-open character
    ranges in ``text``; ``claims`` are (char_start, char_end, supported) spans of the answer, in ``text`` too; the
    passages take up the characters before ``passages_end``; ``column_passage`` is the passage of each prompt token, -1
    outside of all. ``question`` and ``passages`` are what the prompt was made of.
    """

    text: str
    token_ids: list[int]
    offsets: list[CharRange]
    answer_start: int
    gold: list[tuple[int, ...]]
    claims: list[tuple[int, int, bool]]
    passages_end: int
    column_passage: list[int]
    question: str = ""
    passages: Sequence[Passage] = ()


def draw_batch(corpus: Corpus, tokenizer: Tokenizer, *, seed: int, step: int, token_budget: int) -> list[TrainingRow]:
    """The rows of one training step, all of one length class of ``ROW_TOKENS``; they depend on the arguments alone.

    No row is made longer than the budget.
    """
    rng = random.Random(f"attributor rows {seed} {step}")
    tokens = rng.choice([tokens for tokens in ROW_TOKENS if tokens <= max(token_budget, ROW_TOKENS[0])])
    count = max(1, token_budget // tokens)
    return [draw_row(corpus, tokenizer, rng, tokens=tokens) for _ in range(count)]


def draw_row(corpus: Corpus, tokenizer: Tokenizer, rng: random.Random, *, tokens: int) -> TrainingRow:
    """One row of about ``tokens`` tokens, never of more than 1.25 times as many."""
    while True:
        row = compose_row(corpus, tokenizer, rng, char_budget=round(tokens * CHARS_PER_TOKEN))
        if len(row.token_ids) <= 1.25 * tokens:
            return row


def compose_row(corpus: Corpus, tokenizer: Tokenizer, rng: random.Random, *, char_budget: int) -> TrainingRow:
    """Draw passages, quote one to six of them in an answer, and map the answer's tokens to their sources."""
    answer_chars = min(round(0.3 * char_budget), rng.choice([150, 300, 500, 800, 1200]))
    passages = draw_passages(corpus, rng, char_budget=char_budget - answer_chars - 60)
    context, clauses = render_passages(passages)
    ends = [max(end for _, end in ranges) for ranges in clauses]
    quoted = rng.sample(clauses, min(len(clauses), rng.choice([1, 2, 2, 3, 4, 6, 10])))
    question = draw_question(context, quoted, corpus, rng)
    prompt = context + PROMPT_TEMPLATE["question"].format(question=question)
    unsaid = draw_unsaid(passages, prompt, rng)
    answer = AnswerWriter(prompt, quoted, unsaid=unsaid, corpus=corpus, rng=rng).write(char_budget=answer_chars)
    row = align_row(prompt, answer, tokenizer, passages_end=len(context), passage_ends=ends)
    return replace(row, question=question, passages=passages)


def render_passages(passages: list[Passage]) -> tuple[str, list[list[CharRange]]]:
    """(text, for each passage the ranges of its title, if any, and of its sentences)."""
    context, clauses = PROMPT_TEMPLATE["preamble"], []
    for passage in passages:
        name = "passage" if passage.title is None else "titled_passage"
        parts = [*([] if passage.title is None else [passage.title]), *passage.sentences]
        clauses.append(locate(context, parts))
        context += PROMPT_TEMPLATE[name].format(title=passage.title, text=passage.text)
    return context, clauses


def locate(context: str, parts: list[str]) -> list[CharRange]:
    """Where ``parts``, each one character behind the one before, will stand after ``context``."""
    ranges, start = [], len(context)
    for part in parts:
        ranges.append((start, start + len(part)))
        start += len(part) + 1
    return ranges


def draw_unsaid(passages: list[Passage], prompt: str, rng: random.Random) -> list[str]:
    """Up to four sentences of the passages' pages that the prompt does not hold."""
    drawn = [rng.choice(rng.choice(rng.choice(passages).page.paragraphs)) for _ in range(4)]
    return [sentence for sentence in drawn if sentence and sentence not in prompt]


def draw_question(context: str, quoted: list[list[CharRange]], corpus: Corpus, rng: random.Random) -> str:
    """Words of a quoted passage in any order, or words that have nothing to do with it."""
    if rng.random() < 0.3:
        return " ".join(corpus.random_words(rng, 6)) + "?"
    ranges = rng.choice(quoted)
    start, end = ranges[0] if rng.random() < 0.3 else rng.choice(ranges)
    words = WORD.findall(context[start:end])
    return " ".join(rng.sample(words, min(len(words), rng.randint(3, 8)))) + "?"


def align_row(
    prompt: str, answer: Answer, tokenizer: Tokenizer, *, passages_end: int, passage_ends: list[int]
) -> TrainingRow:
    """Tokenise prompt and answer as one text, once, and carry the answer's sources from characters to tokens."""
    text = prompt + answer.text
    encoding = tokenizer.encode(text)
    offsets = encoding.offsets
    ends = [end for _, end in offsets]
    answer_start = next(i for i in range(1, len(ends)) if ends[i] > len(prompt))
    gold = [
        source_columns(answer.sources[max(0, start - len(prompt)) : end - len(prompt)], offsets, ends)
        for start, end in offsets[answer_start:]
    ]
    claims = [(len(prompt) + start, len(prompt) + end, supported) for start, end, supported in answer.claims]
    column_passage = [passage_at(end, passage_ends) for end in ends[:answer_start]]
    return TrainingRow(text, encoding.ids, offsets, answer_start, gold, claims, passages_end, column_passage)


def passage_at(char_end: int, passage_ends: list[int]) -> int:
    """The passage that a token ending at ``char_end`` lies in, -1 for BOS and what comes after the last passage."""
    index = bisect_left(passage_ends, char_end)
    return index if char_end > 0 and index < len(passage_ends) else -1


def source_columns(sources: list[int], offsets: list[CharRange], ends: list[int]) -> tuple[int, ...]:
    """The columns whose characters a token's characters were copied from; BOS for no source, () for ignored."""
    columns = set()
    for source in sources:
        if source >= 0:
            column = bisect_left(ends, source + 1)
            if offsets[column][0] <= source:
                columns.add(column)
    if columns:
        return tuple(sorted(columns))
    return (BOS_COLUMN,) if NO_SOURCE in sources or IGNORED not in sources else ()
