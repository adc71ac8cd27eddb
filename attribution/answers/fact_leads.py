"""Facts that only lead to the next one, and so belong to it: "Check that", "Press and", "Size:", part of a name."""

from __future__ import annotations

from collections.abc import Sequence

from attribeam.attribution.answers.label_schemes import label_scheme
from attribeam.attribution.answers.parsed_answer import ParsedAnswer, SentenceTree

_LONGEST_LABEL = 3
_LONGEST_GAP = 6
_LABEL_TAGS = frozenset({"NOUN", "PROPN", "ADJ"})
_NAME_TAGS = _LABEL_TAGS | {"NUM", "X"}


def with_leads(
    parsed: ParsedAnswer, answer: str, tree: SentenceTree, owners: Sequence[int], content: Sequence[bool]
) -> list[int]:
    """The owner of each word of a sentence, but a fact that only leads to the next one has that one's owner.

    It does if its only word with content is

    - a verb without a subject, and the next fact is its clause or shares its object: "Check that the lid is closed",
      "Press and hold the button";
    - the beginning of a name that the parser has cut: "Benchmark Eatery".

    So does a label of up to three words before a colon: "Size: They are larger". ``owners`` and ``content``, which says
    which words carry content, count words from the sentence's first.
    """
    merged = list(owners)
    if len(set(owners)) == 1:
        return merged
    for owner in dict.fromkeys(owners):
        owned = [word for word, one in enumerate(merged) if one == owner and content[word]]
        if not owned or owned[-1] - owned[0] >= _LONGEST_LABEL:
            continue
        following = next((word for word in range(owned[-1] + 1, len(owners)) if content[word]), None)
        if following is None or merged[following] == owner:
            continue
        if (
            (len(owned) == 1 and _leads_to_clause(parsed, tree, merged, owned[0], merged[following]))
            or (len(owned) == 1 and _begins_name(parsed, answer, tree.first_word, owned[0], following))
            or _is_label(parsed, answer, tree, owned, merged[following])
        ):
            target = merged[following]
            merged = [target if one == owner else one for one in merged]
    return merged


def _leads_to_clause(parsed: ParsedAnswer, tree: SentenceTree, owners: Sequence[int], verb: int, clause: int) -> bool:
    """Whether a verb without a subject of its own governs the clause, or shares its object with it."""
    scheme = label_scheme(parsed.label_scheme)
    if parsed.universal_tags[tree.first_word + verb] != "VERB" or tree.heads[clause] != verb or owners[verb] != verb:
        return False
    if _has_subject(tree, verb):
        return False
    if tree.labels[clause] in scheme.conjunct_labels:
        return not _has_subject(tree, clause) and clause > verb
    return tree.labels[clause] in scheme.clause_labels - {"parataxis"} and clause > verb


def _has_subject(tree: SentenceTree, predicate: int) -> bool:
    subjects = ("nsubj", "nsubjpass", "csubj", "csubjpass", "expl")
    return any(head == predicate and label in subjects for head, label in zip(tree.heads, tree.labels, strict=True))


def _begins_name(parsed: ParsedAnswer, answer: str, first_word: int, word: int, following: int) -> bool:
    """Whether two neighbouring words are parts of one name, as their capital letters show."""
    name, rest = parsed.words[first_word + word], parsed.words[first_word + following]
    if answer[name.char_end : rest.char_start] != " " or parsed.universal_tags[first_word + following] != "PROPN":
        return False
    first = name.of(answer)
    is_name = parsed.universal_tags[first_word + word] in _NAME_TAGS and (
        any(map(str.isupper, first)) or first.isdigit()
    )
    return is_name and rest.of(answer)[0].isupper()


def _is_label(parsed: ParsedAnswer, answer: str, tree: SentenceTree, words: Sequence[int], following: int) -> bool:
    """Whether the words name what a predicate behind their colon is about."""
    tags = [parsed.universal_tags[tree.first_word + word] for word in words]
    if not tree.predicates[following] or not _LABEL_TAGS.issuperset(tags):
        return False
    end = parsed.words[tree.first_word + words[-1]].char_end
    return answer[end : end + _LONGEST_GAP].lstrip(" *_").startswith(":")
