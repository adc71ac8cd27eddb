"""Telling names from other words that begin with a capital letter."""

import re
from collections.abc import Iterable

NON_WORD = re.compile(r"\W")
NOT_NAMES = {
    "After", "Also", "Although", "Because", "Before", "Both", "Despite", "During", "Each", "From",
    "Having", "However", "Many", "More", "Most", "Other", "Since", "Some", "Such", "That", "Their",
    "Then", "There", "These", "They", "This", "Those", "Though", "Under", "Unlike", "Until", "Upon",
    "What", "When", "Where", "Which", "While", "With", "The", "And", "But", "For", "Not", "His", "Her",
    "Its", "She", "Our", "You", "One", "Two", "All", "How", "Who", "Why",
}  # fmt: skip


def names_in(words: Iterable[str]) -> list[str]:
    """The capitalised words of more than two letters, marks left out, that rarely begin a sentence only."""
    cores = [NON_WORD.sub("", word) for word in words if word[:1].isupper()]
    return [core for core in cores if len(core) > 2 and core not in NOT_NAMES]
