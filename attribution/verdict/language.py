"""Which parts of an answer are in a language that the parser and the model do not read, found without a model.

Scripts are counted first. Latin text is told apart by function words, and only where they speak clearly: a part that is
taken for English by mistake is judged badly, but one that is taken for another language is not judged at all.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection
from functools import lru_cache

from attribeam.attribution.answers.markup import block_ranges
from attribeam.attribution.answers.parsed_answer import ParsedAnswer
from attribeam.schemas import CharRange

_ENGLISH_WORDS = (
    "the of and to in is that for it as was with be by on not are this at from or an have has had were which but they"
    " their you your its can will would there been if who what when more than also these other into up out about how"
    " his her he she we our one all some do does no so may should use used only such after before first a i my"
    " them"
)
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_OTHERS = {
    "de": "der die das und ist nicht ein eine einen dem den des mit für auf von zu sich auch wird werden sind im bei"
    " aus nach wie oder als durch über zum zur einer eines nur kann hat haben wurde noch dass sie wenn",
    "fr": "le la les des et est une un dans pour que qui sur pas par avec sont au aux du ce cette il elle nous vous ne"
    " se ou mais plus être ont été leur ses son sa à",
    "es": "el la los las de y que en un una es por con para del se no su al lo como más pero sus le ha son este esta"
    " está también desde cuando fue entre sin",
    "it": "il lo la gli le di e che è un una per con del della dei delle nel nella sono non si da al alla più anche"
    " come questo questa essere ha stato dal",
    "pt": "o os as de e que em um uma é para com não por do da dos das no na nos nas se mais como ao ou são foi pelo"
    " pela também seu sua está",
    "nl": "de het een en van is dat niet op te zijn voor met die aan er om ook als bij wordt worden naar dan uit nog"
    " maar deze kan door heeft",
    "sv": "och att det som är en ett på för med av inte till den om har de kan från men var eller ska också vid när",
    "da": "og at det som er en et på for med af ikke til den om har de kan fra men var eller skal også ved når",
    "pl": "i w na z się nie to jest że do jak od po przez za są oraz który która lub być tym tego dla może ale",
    "cs": "a v na se je že to z do jsou nebo jako pro za po od by který která ale také při podle není být",
    "ro": "și de la în a nu este cu pe din un o care pentru sunt mai să se ce prin sau au fost fi",
    "hu": "a az és hogy nem egy is van ez de meg csak el vagy ha volt még kell lehet mint azt amely",
    "fi": "ja on ei se että oli ovat mutta kun tai joka myös hän voi sen ole jos niin kuin mukaan",
    "tr": "ve bir bu için ile olarak da de çok daha olan en gibi ne kadar değil veya ise sonra var",
    "id": "yang dan di untuk dengan ini dari pada tidak adalah itu dalam ke akan atau juga oleh dapat bisa",
    "vi": "và là của có không được trong cho các một với những này để người khi đã từ như bạn",
    "sw": "na ya wa kwa ni katika la za cha kama hii hiyo yake kuwa wake au pia",
    "la": "et in est non ad cum quod qui ut sed ex per aut sunt esse enim",
}  # fmt: skip
_FUNCTION_WORDS = {name: frozenset(words.split()) for name, words in _OTHERS.items()}
_FOREIGN_FUNCTION_WORDS = frozenset().union(*_FUNCTION_WORDS.values()) - _ENGLISH
_LATIN, _HAN = "LATIN", "CJK"
_FEWEST_WORDS = 8
_FEWEST_LETTERS_IN_SCRIPT = 20
_FEWEST_FUNCTION_WORDS = 3
_FOREIGN_SHARE = 0.12
_ENGLISH_SHARE = 0.08
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def unread_ranges(parsed: ParsedAnswer, answer: str) -> tuple[CharRange, ...]:
    """The blocks of an answer that are not in a language that is read, ascending; the whole answer where none is.

    English is read; with a parser for Chinese, Han characters as well. A block with few words goes with the answer as
    a whole, so a name or a quotation in another script stays where it is.
    """
    scripts = {_LATIN, _HAN} if "chinese" in parsed.label_scheme else {_LATIN}
    in_other_script = _is_in_other_script(answer, scripts)
    is_foreign_latin = not in_other_script and _is_foreign_latin(answer)
    blocks = block_ranges(answer)
    unread = []
    for block in blocks:
        text = block.of(answer)
        if _is_in_other_script(text, scripts):
            is_long = sum(map(str.isalpha, text)) >= _FEWEST_LETTERS_IN_SCRIPT
            unread.append(is_long or in_other_script or is_foreign_latin)
        else:
            is_long = len(_WORD.findall(text)) >= _FEWEST_WORDS
            unread.append(_is_foreign_latin(text) if is_long else is_foreign_latin)
    if blocks and all(unread):
        return (CharRange(0, len(answer)),)
    return tuple(block for block, is_unread in zip(blocks, unread, strict=True) if is_unread)


def _is_in_other_script(text: str, scripts: Collection[str]) -> bool:
    """True where most letters are of none of the scripts."""
    beyond = Counter(script_of(character) for character in _BEYOND_ASCII.findall(text) if character.isalpha())
    foreign = sum(count for script, count in beyond.items() if script not in scripts)
    return bool(foreign) and 2 * foreign > sum(map(str.isalpha, text))


def _is_foreign_latin(text: str) -> bool:
    """True for a text of eight words or more with many function words of another language and next to none of English.

    Words that both languages have count for neither.
    """
    words = [word.lower() for word in _WORD.findall(text)]
    if len(words) < _FEWEST_WORDS:
        return False
    english = [word for word in words if word in _ENGLISH]
    fewest = max(_FEWEST_FUNCTION_WORDS, _FOREIGN_SHARE * len(words))
    if sum(word in _FOREIGN_FUNCTION_WORDS for word in words) < fewest:
        return False
    return any(
        sum(word in function_words and word not in _ENGLISH for word in words) >= fewest
        and sum(word not in function_words for word in english) < _ENGLISH_SHARE * len(words)
        for function_words in _FUNCTION_WORDS.values()
    )


@lru_cache(maxsize=8192)
def script_of(character: str) -> str:
    """The first word of a letter's Unicode name, which names its script: "LATIN", "HEBREW", "CJK", "HIRAGANA"."""
    if character.isascii():
        return _LATIN
    name = unicodedata.name(unicodedata.normalize("NFKC", character)[:1] or character, "")
    if name.startswith(("MODIFIER", "FEMININE", "MASCULINE", "MICRO")):
        return _LATIN
    return name.split(" ", 1)[0]
