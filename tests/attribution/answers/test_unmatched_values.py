import pytest
from tests.attribution.trees import COMPANY_UNIVERSAL, tree

from attribeam.attribution.answers.plain_text import remembered
from attribeam.attribution.answers.unmatched_values import ValueMatcher
from attribeam.schemas import CharRange, Passage


def plain(text: str) -> str:
    """A notation in which capitalised words inside the sentence are proper nouns and number words count the next."""
    items = []
    for place, word in enumerate(text.split()):
        name = word[0].isupper() and place > 0
        counts = word in ("one", "two", "three", "twelve")
        tag = "PROPN" if name else "NUM" if counts or word[0].isdigit() else "NOUN"
        items.append(f"{word}/{'nummod' if counts else 'dep'}/{2 if place == 0 else 1}/{tag}")
    items[0] = items[0].replace("/dep/2/", "/root/0/")
    return " ".join(items)


def unmatched(answer: str, *texts: str, title: str | None = None, notation: str | None = None) -> tuple[str, ...]:
    text, parsed = tree(notation or plain(answer))
    matcher = ValueMatcher(answer=text, parsed=parsed, passages=[Passage(one, title) for one in texts])
    return matcher.unmatched_values(CharRange(0, len(text)), range(len(texts)))


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        ("it cost 1,234 euros", "The price was 1234 euros."),
        ("it cost 1234 euros", "The price was 1,234 euros."),
        ("it cost 1234 euros", "The price was 1 234 euros."),
        ("it cost 1234 euros", "The price was 1.234 euros."),
        ("it weighs 5.0 kg", "a weight of 5 kg"),
        ("it weighs 5,5 kg", "a weight of 5.5 kg"),
        ("about $1 million was paid", "They paid 1,000,000 dollars."),
        ("about 1,000,000 was paid", "They paid one million dollars."),
        ("about 1.2 million live there", "The census counted 1,204,300 people."),
        ("it sold 3bn units", "Sales reached 3 billion."),
        ("it has 12 moons", "It has twelve moons."),
        ("it has two moons", "It has 2 moons."),
        ("in the 1990s it grew", "Growth began in 1994."),
        ("the 21st of them", "number 21"),
        ("it opened on 12 May 2013", "On May 12, 2013 the doors opened."),
        ("it opened on 12 May 2013", "Opened: 2013-05-12"),
        ("it opened on 2013-05-12 then", "It opened on the 12th of May 2013."),
        ("it opened in Sept. 2001", "September 2001 was the start."),
        ("it opened in March", "Opened in Mar. of that year"),
        ("by Beyonce herself", "Beyoncé wrote it."),
        ("by Ada’s brother", "Ada's family"),
        ("in the U.S. today", "The US grew."),
        ("in the US today", "The United States grew."),
        ("the Canadians won", "Canada won."),
        ("people in Australia won", "An Australian won."),
        ("it was 42", "It was ٤٢."),
        ("a Report of Ｕｎｅｓｃｏ today", "unesco's report"),
        ("it costs **25** euros", "25 euros"),
        ("by Ada Byron herself", "the book _Ada Byron_ sold well"),
        ("about 80 percent of it", "four fifths of the price"),
        ("about 50% of it", "half of the price"),
        ("about 67% of it", "two thirds of the price"),
        ("it took 2.5 hours", "It lasted two and a half hours."),
        ("it took 18 months", "It lasted a year and a half."),
        ("it starts at 7.30 p.m.", "Beginning at half past seven."),
        ("after 30 minutes then", "half an hour later"),
        ("it took two weeks", "within 14 days"),
        ("it took 7 days", "for a week"),
        ("within 3 days", "within 3 working days"),
        ("it took two weeks", "two or three weeks"),
        ("about 1.2 million years ago", "1,204,300 years before today"),
    ],
)
def test_value_is_found_in_another_form(answer: str, passage: str) -> None:
    assert unmatched(answer, passage) == ()


@pytest.mark.parametrize(
    ("answer", "passage", "expected"),
    [
        ("it cost 1,234 euros", "The price was 1,243 euros.", ("1,234",)),
        ("it cost 234 euros", "The price was 1,234 euros.", ("234",)),
        ("about 1 million was paid", "They paid 5 million dollars.", ("1 million",)),
        ("about 1.2 million live there", "The census counted 1,304,300 people.", ("1.2 million",)),
        ("it has two moons", "It has three moons.", ("two",)),
        ("it opened on 12 May 2013", "On 12 June 2013 the doors opened.", ("12 May 2013",)),
        ("it opened on 12 May 2013", "On 13 May 2013 the doors opened.", ("12 May 2013",)),
        ("it opened in March", "Opened in May.", ("March",)),
        ("in the 1990s it grew", "Growth began in 1984.", ("1990s",)),
        ("by Ada Byron herself", "Charles wrote it.", ("Ada Byron",)),
        ("by Ada Byron herself", "Ada Lovelace wrote it.", ("Ada Byron",)),
        ("from Oslo to Bergen", "A train from Lund.", ("Oslo", "Bergen")),
        ("it took two weeks", "two months later", ("two",)),
        ("it took 30 days", "within 30 hours", ("30",)),
        ("about 60 percent of it", "half of the price", ("60",)),
        ("it has 50 rooms", "half of the rooms", ("50",)),
    ],
)
def test_value_that_the_passage_does_not_repeat_is_unmatched(
    answer: str, passage: str, expected: tuple[str, ...]
) -> None:
    assert unmatched(answer, passage) == expected


def test_title_counts_as_passage_text() -> None:
    assert unmatched("in the Oslo area", "A city.", title="Oslo") == ()


def test_date_must_occur_in_one_passage() -> None:
    assert unmatched("it opened on 12 May 2013", "On 12 May 1999.", "On 3 June 2013.") == ("12 May 2013",)


def test_value_in_any_of_the_evidence_passages_is_matched() -> None:
    assert unmatched("from Oslo to Bergen", "Oslo", "Bergen") == ()


def test_capitalised_first_word_is_no_name() -> None:
    assert unmatched("Meanwhile it rained", "Nothing.") == ()


def test_worded_numbers_beside_each_other_stay_two() -> None:
    passage = "The company earned $1,000,000 in 2012."
    assert unmatched("", passage, notation=COMPANY_UNIVERSAL) == ("two million", "2013")


def test_only_values_wholly_in_the_span_count() -> None:
    text, parsed = tree(plain("from Oslo to Bergen in 1999"))
    matcher = ValueMatcher(answer=text, parsed=parsed, passages=[Passage("Nothing.")])
    assert matcher.unmatched_values(CharRange(5, 12), [0]) == ("Oslo",)
    assert matcher.unmatched_values(CharRange(5, 16), [0]) == ("Oslo",)


def test_span_without_evidence_passages_is_held_against_all() -> None:
    text, parsed = tree(plain("from Oslo to Bergen"))
    matcher = ValueMatcher(answer=text, parsed=parsed, passages=[Passage("Oslo"), Passage("Lund")])
    assert matcher.unmatched_values(CharRange(0, len(text)), []) == ("Bergen",)
    assert matcher.unmatched_values(CharRange(0, len(text)), [1]) == ("Oslo", "Bergen")


def test_repeated_value_is_given_once() -> None:
    assert unmatched("from Oslo and to Oslo", "Nothing.") == ("Oslo",)


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        ("it came with 4.8.2 then", "The fix is in v4.8.2."),
        ("it came with 4.8 then", "The fix is in 4.8.2."),
        ("it opened on 05.05.2021 then", "It opened on 5 May 2021."),
        ("it opened on 5 May 2021", "Opened: 05.05.2021"),
        ("it opened on 05.05.2021 then", "Opened: 2021-05-05"),
    ],
)
def test_version_or_dotted_date_is_found(answer: str, passage: str) -> None:
    assert unmatched(answer, passage) == ()


@pytest.mark.parametrize(
    ("answer", "passage", "expected"),
    [
        ("it came with 4.8.2 then", "The fix is in 4.8.3, not 2, 4 or 8.", ("4.8.2",)),
        ("it came with 4.8.2 then", "The fix is in 14.8.2 and 4.8.21.", ("4.8.2",)),
        ("it answers at 10.0.0.1 only", "It answers at 10.0.0.2 now.", ("10.0.0.1",)),
        ("it came with version 2 then", "The fix is in 4.8.2.", ("2",)),
        ("it opened on 05.05.2021 then", "It opened on 6 May 2021.", ("05.05.2021",)),
        ("it opened on 05.05.2021 then", "It opened on 05.06.2021.", ("05.05.2021",)),
    ],
)
def test_version_or_date_must_match_as_a_whole(answer: str, passage: str, expected: tuple[str, ...]) -> None:
    assert unmatched(answer, passage) == expected


@pytest.mark.parametrize(
    "answer",
    [
        "it cost NOK 48 then",
        "it cost 48 NOK then",
        "it cost 48 million EUR then",
        "it has 48 °F now",
        "it has 48 GB now",
    ],
)
def test_unit_or_currency_beside_a_number_is_no_name(answer: str) -> None:
    assert unmatched(answer, "We read 48 and 48 million there.") == ()


@pytest.mark.parametrize("answer", ["it is in NOK now", "the F came", "about 48 Gebs then"])
def test_unit_that_stands_elsewhere_is_a_name(answer: str) -> None:
    assert unmatched(answer, "We read 48 there.") == (answer.split()[-2],)


def test_bracketed_numbers_of_parts_are_no_values() -> None:
    assert unmatched("it is (1) wet and (22) cold", "Nothing.") == ()
    assert unmatched("it is (1999) old", "Nothing.") == ("1999",)


def test_initials_of_the_words_before_them_are_no_value() -> None:
    name = "the/det/4/DET Iron/compound/4/PROPN Ore/compound/4/PROPN Board/root/0/PROPN (/punct/6/PUNCT "
    passage = "The Iron-Ore board met."
    assert unmatched("", passage, notation=name + "~IOB/appos/4/PROPN ~)/punct/6/PUNCT") == ()
    assert unmatched("", passage, notation=name + "~IOC/appos/4/PROPN ~)/punct/6/PUNCT") == ("IOC",)


def test_units_are_looked_up_and_not_searched_for_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[CharRange] = []
    overlaps = CharRange.overlaps
    monkeypatch.setattr(CharRange, "overlaps", lambda one, other: (compared.append(one), overlaps(one, other))[1])
    text, parsed = tree("Ada/root/0/PROPN " + "5/nummod/1/NUM km/dep/1/PROPN " * 300)
    matcher = ValueMatcher(answer=text, parsed=parsed, passages=[Passage("Nothing.")])
    assert matcher.unmatched_values(CharRange(0, len(text)), [0]) == ("Ada", "5")
    assert len(compared) < 5 * len(parsed.words)


def test_texts_are_read_once_unless_they_are_long() -> None:
    read: list[int] = []

    @remembered
    def length(text: str) -> int:
        read.append(len(text))
        return len(text)

    assert [length("x" * size) for size in (3, 3, 20_000, 20_000)] == [3, 3, 20_000, 20_000]
    assert read == [3, 20_000, 20_000]
