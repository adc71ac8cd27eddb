"""The target spans of an answer: what the audit seeks evidence for.

Facts are verbs or copular predicates with their arguments. Mentions are named entities, numbers and dates with their
units, and noun chunks. Both must carry content, and no span begins or ends with a mark or a joining word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from attribeam.attribution.answers.markup import hide_markup, merged_ranges, structured_text
from attribeam.attribution.answers.parsed_answer import (
    CONJUNCT,
    LabelScheme,
    ParsedAnswer,
    SentenceTree,
    base_label,
    has_letter_or_digit,
    label_scheme,
    sentence_bounds,
    sentence_tree,
    words_in,
)
from attribeam.attribution.answers.plain_text import DATE, QUANTITY
from attribeam.schemas import CharRange, ClaimKind, SpanKind, TargetSpan

DEFAULT_SPAN_KINDS = (SpanKind.GIVEN, SpanKind.FACTS, SpanKind.MENTIONS)


def parse_span_kinds(text: str) -> tuple[SpanKind, ...]:
    """The kinds of a comma-separated list such as "given,facts,mentions", in its order and without repetition.

    Raises:
        ValueError: if the list is empty or names something else.
    """
    names = dict.fromkeys(name.strip().lower() for name in text.split(","))
    allowed = [kind.value for kind in SpanKind]
    if not names.keys() <= {*allowed}:
        raise ValueError(f"target spans should be a comma-separated list of {', '.join(allowed)}, was: {text!r}")
    return tuple(map(SpanKind, names))


def choose_target_spans(
    parsed: ParsedAnswer, answer: str, *, kinds: Sequence[SpanKind], given: tuple[CharRange, ...] | None
) -> tuple[TargetSpan, ...]:
    """The target spans of one answer, at least one for every answer that is not white space only.

    If ``given`` is among ``kinds`` and the row has spans, these and no others. Otherwise the spans of all other kinds,
    ordered by (char_start, char_end); of equal ranges, the one whose kind comes first in ``kinds``. If there are none,
    the sentences; if the answer has no sentences either (only marks or emoji), the whole answer, trimmed.

    Raises:
        ValueError: if the answer is white space only.
    """
    if SpanKind.GIVEN in kinds and given:
        return tuple(TargetSpan(SpanKind.GIVEN, chars) for chars in given)
    chosen: dict[CharRange, SpanKind] = {}
    for kind in kinds:
        for chars in _ranges_of_kind(kind, parsed, answer):
            chosen.setdefault(chars, kind)
    if not chosen:
        whole = re.search(r"\S(?:.*\S)?", answer, re.DOTALL)
        if whole is None:
            raise ValueError("an answer with something besides white space is needed to choose target spans")
        sentences = _ranges_of_kind(SpanKind.SENTENCES, parsed, answer)
        chosen = dict.fromkeys(sentences or [CharRange(*whole.span())], SpanKind.SENTENCES)
    chosen = {_with_emphasis(chars, answer): kind for chars, kind in chosen.items()}
    return tuple(TargetSpan(chosen[chars], chars) for chars in sorted(chosen))


def _ranges_of_kind(kind: SpanKind, parsed: ParsedAnswer, answer: str) -> list[CharRange]:
    match kind:
        case SpanKind.GIVEN:
            return []
        case SpanKind.MENTIONS:
            return mention_ranges(parsed, answer)
        case SpanKind.WORDS:
            return [chars for word, chars in enumerate(parsed.words) if is_content_word(parsed, word, answer)]
        case SpanKind.FACTS:
            ranges = fact_ranges(parsed, answer)
        case SpanKind.SENTENCES:
            ranges = (words_range(parsed, range(*bounds)) for bounds in sentence_bounds(parsed))
    return [chars for chars in ranges if has_letter_or_digit(chars.of(answer))]


def fact_ranges(parsed: ParsedAnswer, answer: str) -> Iterator[CharRange]:
    """The facts of an answer; every word that carries content lies in at least one.

    A fact belongs to a sentence's root, to a conjoined predicate, or to the predicate of a nested clause that can stand
    alone. Every other word belongs to the fact of its closest such ancestor. A fact's range runs from its first to its
    last word without marks and joining words at the edges; a nested clause in its middle lies within it as well. A
    fragment of one or two words belongs to a fact beside it. A label is apart from the facts behind it, and so are the
    cells of a table from each other.
    """
    labels = label_words(parsed, answer)
    trimmed = (trimmed_words(parsed, label, answer) for label in labels)
    yield from (words_range(parsed, words) for words in trimmed if words)
    in_label = {word for label in labels for word in label}
    structure = structured_text(answer)
    parts = [structure.part_at(word.char_start) for word in parsed.words]
    scheme = label_scheme(parsed.label_scheme)
    for start, end in sentence_bounds(parsed):
        tree = sentence_tree(parsed, start, end)
        owners = _owners(tree, _fact_words(parsed, answer, tree, scheme))
        owners = _without_fragments(parsed, answer, tree, owners, scheme)
        facts: dict[tuple[int, int | None], list[int]] = {}
        for word, owner in enumerate(owners, start):
            if word not in in_label:
                facts.setdefault((owner, parts[word]), []).append(word)
        for run in _without_crossings(parsed, [*facts.values()], answer):
            if len(run) > 1 or is_content_word(parsed, run[0], answer):
                yield words_range(parsed, run)


def last_statement(parsed: ParsedAnswer, answer: str, start: int, end: int) -> range:
    """From the first word of the last statement in the sentence ``[start, end)`` to the sentence's end.

    The sentence's last word, but for marks, belongs to it.
    """
    tree = sentence_tree(parsed, start, end)
    owners = _owners(tree, _fact_words(parsed, answer, tree, label_scheme(parsed.label_scheme)))
    last = max((word for word, is_mark in enumerate(tree.punctuation) if not is_mark), default=0)
    return range(start + owners.index(owners[last]), end)


def _owners(tree: SentenceTree, stating: Sequence[bool]) -> list[int]:
    """Of each word the closest one that states a fact: itself or an ancestor."""
    owners = [*range(len(stating))]
    for word, owner in enumerate(owners):
        while not stating[owner]:
            owner = tree.heads[owner]
        owners[word] = owner
    return owners


def _without_crossings(parsed: ParsedAnswer, facts: Iterable[Sequence[int]], answer: str) -> list[range]:
    """The facts from first to last word, ascending; of two that cross, the earlier one ends where the later begins."""
    runs = {run: words for words in facts if (run := trimmed_words(parsed, words, answer))}
    while True:
        enclosing: list[range] = []
        for run in sorted(runs, key=lambda run: run.start):
            while enclosing and enclosing[-1].stop <= run.start:
                enclosing.pop()
            if enclosing and enclosing[-1].stop < run.stop:
                words = [word for word in runs.pop(enclosing[-1]) if word < run.start]
                if shorter := trimmed_words(parsed, words, answer):
                    runs[shorter] = words
                break
            enclosing.append(run)
        else:
            return sorted(runs, key=lambda run: run.start)


_BOLD_LABEL = re.compile(
    r"^[ \t>]*(?:(?:[-*+•‣▪]|\(?(?:\d{1,2}|[^\W\d_])[.)]|[^\w\s*_<>]{1,4})[ \t]+){0,3}"
    r"(?P<bold>\*{2,3}|__|<b>|<strong>)(?P<label>[^*\n<]{1,80}?)(?P<inside>[:：][ \t]*)?(?:\*{2,3}|__|</b>|</strong>)"
    r"(?(inside)|[ \t]*(?:[:：]|[–—-](?=\s)))(?=[ \t]*\S)",
    re.MULTILINE,
)
_LINE_BEHIND = re.compile(r"[^\n]+")
_MOST_WORDS_OF_LABEL = 8
ASKING = re.compile(r"\W*(?:how|what|why|when|where|who|which|if)\b", re.IGNORECASE)


_LIST_NUMBER = re.compile(r"(?<=[.:;!?)] )\(?(\d{1,2})[.)](?=\s+\S)")


def bold_labels(parsed: ParsedAnswer, answer: str) -> Iterator[tuple[range, range]]:
    """The words of each label in bold type before a statement, and the words behind it in its line, ascending.

    A label, as in "**Price**: It costs $5", has its colon or dash, and no subject, unless it is short or like a
    question.
    """
    subjects = label_scheme(parsed.label_scheme).subject_labels
    for match in _BOLD_LABEL.finditer(answer) if "**" in answer or "__" in answer or "<" in answer else ():
        words = words_in(parsed, CharRange(match.start("label"), match.end()))
        count = len(match["label"].split())
        has_subject = not subjects.isdisjoint(map(base_label, parsed.dependency_labels[words.start : words.stop]))
        may_state = count > 2 and ASKING.match(match["label"]) is None
        if words and count <= _MOST_WORDS_OF_LABEL and not (may_state and has_subject):
            line = _LINE_BEHIND.match(answer, match.end())
            yield words, words_in(parsed, CharRange(*line.span())) if line else range(0)


def label_words(parsed: ParsedAnswer, answer: str) -> list[range]:
    """The words of labels: numbers of a list within a line, in bold type before a statement, in tables and JSON.

    A number counts on in its line: "Delete old models. 2. Choose a larger plan. 3. Wait".
    """
    labels: list[range] = []
    matches = [*_LIST_NUMBER.finditer(answer)]
    numbers = [int(match[1]) for match in matches]
    for index, (number, match) in enumerate(zip(numbers, matches, strict=True)):
        if number - 1 in numbers[max(index - 1, 0) : index] or number + 1 in numbers[index + 1 : index + 2]:
            labels.append(words_in(parsed, CharRange(*match.span())))
    labels += [words for words, _ in bold_labels(parsed, answer)]
    structure = structured_text(answer)
    pairs = zip(structure.parts, structure.kinds, strict=True)
    headings = (words_in(parsed, part) for part, kind in pairs if kind is ClaimKind.HEADING)
    return labels + [words for words in headings if words]


def _with_emphasis(chars: CharRange, answer: str) -> CharRange:
    """The range with the mark beside it that opens or closes bold or italic type, code or a quotation within it."""
    text = chars.of(answer)
    for mark in ("***", "**", "*", "`", '"'):
        if text.count(mark) % 2:
            if answer.startswith(mark, chars.char_end):
                return CharRange(chars.char_start, chars.char_end + len(mark))
            if answer.endswith(mark, 0, chars.char_start):
                return CharRange(chars.char_start - len(mark), chars.char_end)
    return chars


_SHORTEST_FACT = 3
_LONGEST_LABEL = 3
_LONGEST_GAP = 6
_LABEL_TAGS = frozenset({"NOUN", "PROPN", "ADJ"})


def _without_fragments(
    parsed: ParsedAnswer, answer: str, tree: SentenceTree, owners: Sequence[int], scheme: LabelScheme
) -> list[int]:
    """The owner of each word, but what states nothing by itself has the owner of the words beside it.

    A fragment has that of the words before it, at a sentence's beginning of those behind it: words without content, and
    one or two words without a subject of theirs. A name before a colon has that of the predicate behind it ("Size: They
    are larger"); any other label there stays apart.
    """
    merged = list(owners)
    for owner in dict.fromkeys(owners):
        owned = [tree.first_word + word for word, above in enumerate(merged) if above == owner]
        others = [word for word, above in enumerate(merged) if above != owner]
        if not owned or not others:
            continue
        first = owned[0] - tree.first_word
        following = next((word for word in others if word > first), others[-1])
        content = [word for word in owned if is_content_word(parsed, word, answer)]
        inside = trimmed_words(parsed, owned, answer)
        spoken = [word for word in owned if word in inside and has_letter_or_digit(parsed.words[word].of(answer))]
        has_subject = any(base_label(parsed.dependency_labels[word]) in scheme.subject_labels for word in owned)
        target = owner
        end = parsed.words[content[-1]].char_end if content else 0
        if content and answer[end : end + _LONGEST_GAP].lstrip(" *_`").startswith(":"):
            tags = {parsed.universal_tags[word] for word in content}
            is_name = content[-1] - content[0] < _LONGEST_LABEL and tags <= _LABEL_TAGS
            if is_name and tree.predicates[merged[following]]:
                target = merged[following]
        elif not content or (len(spoken) < _SHORTEST_FACT and not has_subject):
            target = merged[first - 1 if first else following]
        merged = [target if above == owner else above for above in merged]
    return merged


_CONDITIONS = frozenset(
    {"after", "before", "if", "once", "till", "unless", "until", "when", "whenever", "where", "wherever", "whether"}
)
"""What opens a clause that is no statement by itself: "if the lid is open"."""
_OPENING_LABELS = frozenset({"mark", "advmod"})
_PARTICIPLE_LABELS = frozenset({"advcl", "acl"})
_JUXTAPOSED_LABELS = frozenset({"parataxis", "list"})


def _fact_words(parsed: ParsedAnswer, answer: str, tree: SentenceTree, scheme: LabelScheme) -> list[bool]:
    """True for roots and predicates that state a fact of their own.

    An adverbial clause does if a mark sets it off and it is no condition: one with a subject ("although it rained"), or
    one that reports something (", noting that the lamp was lit"). Complements ("he said that it rained") and relative
    clauses do not. A conjunct does if the clause before it does, or is a complement with a subject.
    """
    sentence = slice(tree.first_word, tree.first_word + len(tree.heads))
    with_subject: set[int] = set()
    conditions: set[int] = set()
    for head, label, chars in zip(tree.heads, tree.labels, parsed.words[sentence], strict=True):
        if label in scheme.subject_labels:
            with_subject.add(head)
        if label in _OPENING_LABELS and chars.of(answer).lower() in _CONDITIONS:
            conditions.add(head)
    complements = {head for head in with_subject if tree.labels[head] == "ccomp"}
    reporting = {tree.heads[head] for head in complements}
    set_off = _set_off(tree)
    stating = [tree.heads[word] == word for word in range(len(tree.heads))]
    for word, label in enumerate(parsed.dependency_labels[sentence]):
        if tree.predicates[word] and set_off[word] and word not in conditions:
            stating[word] |= label == "advcl" and word in with_subject
            stating[word] |= label in _PARTICIPLE_LABELS and word in reporting
        stating[word] |= tree.predicates[word] and tree.labels[word] in _JUXTAPOSED_LABELS
    conjoined = [word not in conditions and label == CONJUNCT for word, label in enumerate(tree.labels)]
    return [
        stating[word] or (conjoined[word] and tree.predicates[word] and (stating[head] or head in complements))
        for word, head in enumerate(tree.heads)
    ]


def _set_off(tree: SentenceTree) -> list[bool]:
    """For each word, whether a punctuation mark stands between its subtree and its head."""
    firsts, lasts = list(range(len(tree.heads))), list(range(len(tree.heads)))
    for word, is_mark in enumerate(tree.punctuation):
        above = word
        while not is_mark and tree.heads[above] != above:
            above = tree.heads[above]
            firsts[above], lasts[above] = min(firsts[above], word), max(lasts[above], word)
    return [
        (head < first and tree.punctuation[first - 1]) or (head > last and tree.punctuation[last + 1])
        for head, first, last in zip(tree.heads, firsts, lasts, strict=True)
    ]


def mention_ranges(parsed: ParsedAnswer, answer: str) -> list[CharRange]:
    """The mentions of an answer, ascending: the outermost of nested ones, and none without a content word.

    Entities come from the parser if it finds any; otherwise they are runs of proper nouns.
    """
    runs = [*_value_and_name_words(parsed, answer), *_noun_chunks(parsed, answer)]
    parts = structured_text(answer)
    trimmed: set[range] = set()
    for run in dict.fromkeys(_with_hyphenated(runs, parsed, answer)):
        in_cells = _alike(run, lambda word: parts.part_at(parsed.words[word].char_start))
        trimmed.update(trimmed_words(parsed, words, answer) for _, words in in_cells)
    outermost: list[range] = []
    for run in sorted(trimmed, key=lambda run: (run.start, -run.stop)):
        if any(is_content_word(parsed, word, answer) for word in run) and (
            not outermost or run.stop > outermost[-1].stop
        ):
            outermost.append(run)
    return [words_range(parsed, words) for words in outermost]


def _with_hyphenated(runs: Iterable[range], parsed: ParsedAnswer, answer: str) -> Iterator[range]:
    """The runs, extended by words that a bare hyphen joins to their edges ("Skelde" of "Skelde-Runa")."""
    count = len(parsed.words)
    hyphens = [0 < word < count - 1 and _is_hyphen_inside(parsed, word, answer) for word in range(count)]
    firsts, ends = list(range(count + 1)), list(range(count + 1))
    for word in range(2, count):
        if hyphens[word - 1]:
            firsts[word] = firsts[word - 2]
    for end in range(count - 2, 0, -1):
        if hyphens[end]:
            ends[end] = ends[end + 2]
    for run in runs:
        yield range(firsts[run.start], ends[run.stop]) if run else run


def _is_hyphen_inside(parsed: ParsedAnswer, word: int, answer: str) -> bool:
    before, hyphen, after = parsed.words[word - 1 : word + 2]
    glued = before.char_end == hyphen.char_start and hyphen.char_end == after.char_start
    return glued and hyphen.of(answer) in ("-", "\u2010", "\u2011")


def _alike(run: range, key: Callable[[int], object]) -> Iterator[tuple[object, range]]:
    """The parts of a run of words that have the same key, each with it."""
    for value, words in groupby(run, key):
        first, *others = words
        yield value, range(first, (others or [first])[-1] + 1)


def _value_and_name_words(parsed: ParsedAnswer, answer: str) -> Iterator[range]:
    """Numbers and dates written with digits, with the words of their unit ("October 9-11" is one), and names."""
    text = hide_markup(answer, parsed.marked)
    values = sorted(CharRange(*match.span()) for pattern in (DATE, QUANTITY) for match in pattern.finditer(text))
    yield from (words_in(parsed, chars) for chars in (*merged_ranges(values), *parsed.entities))
    for sentence in () if parsed.entities else sentence_bounds(parsed):
        tagged = _alike(range(*sentence), parsed.universal_tags.__getitem__)
        yield from (words for tag, words in tagged if tag == "PROPN")


def _noun_chunks(parsed: ParsedAnswer, answer: str) -> Iterator[range]:
    """Each noun with the adjacent determiners, adjectives, numbers and names that depend on it."""
    scheme = label_scheme(parsed.label_scheme)
    for start, end in sentence_bounds(parsed):
        members = [*range(start, end)]  # of each word the noun whose chunk it may be in, or itself
        for index, top in enumerate(members):
            while _is_in_noun_chunk(parsed, top, scheme) and start <= parsed.dependency_heads[top] < end:
                top = parsed.dependency_heads[top]
            members[index] = top
        for noun in range(start, end):
            if members[noun - start] == noun and parsed.universal_tags[noun] in scheme.noun_tags:
                inside = {start + word for word, head in enumerate(members) if head == noun}
                between = range(start + 1, end - 1)
                inside |= {word for word in between if word + 1 in inside and _is_hyphen_inside(parsed, word, answer)}
                first = stop = noun
                while first - 1 in inside:
                    first -= 1
                while stop in inside:
                    stop += 1
                yield range(first, stop)


def _is_in_noun_chunk(parsed: ParsedAnswer, word: int, scheme: LabelScheme) -> bool:
    label = parsed.dependency_labels[word]
    is_possessive = parsed.universal_tags[word] == "PART" and base_label(label) == "case"
    is_within = is_possessive or not scheme.noun_chunk_labels.isdisjoint((label, base_label(label)))
    return is_within and parsed.dependency_heads[word] != word


_FUNCTION_TAGS = frozenset({"ADP", "AUX", "CCONJ", "CONJ", "DET", "PART", "PRON", "PUNCT", "SCONJ", "SPACE"})
_JOINING_LABELS = frozenset({"cc", "mark", "preconj"})
_PICTURE_CATEGORIES = frozenset({"So", "Sk", "Cf", "Mn", "Me"})
_SIGNS = frozenset("°©®№℃℉")
_CLOSED_BY = {")": "(", "]": "[", "}": "{", "»": "«", "”": "“"}


def is_content_word(parsed: ParsedAnswer, word: int, answer: str) -> bool:
    """True for a word with a letter or digit that is not a function word; unknown tags count as content."""
    return parsed.universal_tags[word] not in _FUNCTION_TAGS and has_letter_or_digit(parsed.words[word].of(answer))


def trimmed_words(parsed: ParsedAnswer, words: Sequence[int], answer: str) -> range:
    """From the first to the last of ascending words, without marks and joining words at the edges; may be empty.

    A closing bracket after the last word is included if its opening bracket is in the span.
    """
    first, end = 0, len(words)
    while first < end and (_is_mark(parsed, words[first], answer) or _is_joining(parsed, words[first], words)):
        first += 1
    while first < end and (_is_mark(parsed, words[end - 1], answer) or _is_joining(parsed, words[end - 1])):
        end -= 1
    if first == end:
        return range(0)
    if end < len(words) and words[end] == words[end - 1] + 1:
        closing = parsed.words[words[end]]
        bracket, before = closing.of(answer), answer[parsed.words[words[first]].char_start : closing.char_start]
        if bracket in _CLOSED_BY and before.count(_CLOSED_BY[bracket]) > before.count(bracket):
            end += 1
    return range(words[first], words[end - 1] + 1)


def words_range(parsed: ParsedAnswer, words: range) -> CharRange:
    """From the first to the last of a non-empty run of words."""
    return CharRange(parsed.words[words[0]].char_start, parsed.words[words[-1]].char_end)


def _is_mark(parsed: ParsedAnswer, word: int, answer: str) -> bool:
    """True for punctuation, and for emoji and the like whatever their tag."""
    form = parsed.words[word].of(answer)
    if form.isalpha():
        return False
    categories = {unicodedata.category(character) for character in form}
    if categories & _PICTURE_CATEGORIES and categories <= _PICTURE_CATEGORIES | {"Po"} and form not in _SIGNS:
        return True
    tagged = parsed.universal_tags[word] == "PUNCT" or parsed.dependency_labels[word].startswith("punct")
    return tagged and not has_letter_or_digit(form)


def _is_joining(parsed: ParsedAnswer, word: int, inside: Sequence[int] = ()) -> bool:
    """True for a word that joins a clause to what is not among the words ``inside``."""
    label = base_label(parsed.dependency_labels[word])
    clause = parsed.dependency_heads[word]
    is_within = parsed.dependency_heads[clause] != clause and parsed.dependency_heads[clause] in inside
    return label in _JOINING_LABELS and parsed.universal_tags[word] in _FUNCTION_TAGS and not is_within
