"""English words that say nothing on their own."""

from __future__ import annotations

FUNCTION_WORDS = frozenset(
    """
    a an the and or but nor so yet of in on at by for to from with without within into onto over under up down out off
    upon as than then that this these those such it its he him his she her hers they them their theirs i me my we us our
    you your who whom whose which what when where why how there here is are was were be been being am do does did has
    have had having will would shall should can could may might must not no if because while although though
    also some any each other more most all only just very too own same both either neither about after before between
    during through against among per via s t re ve ll d m it's that's there's he's she's i'm i've you're you've we're
    we've they're they've
    """.split()  # noqa: SIM905
)
"""Lower-case, with straight apostrophes, and with what is left of contractions."""
