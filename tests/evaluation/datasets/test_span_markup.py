import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.datasets.span_markup import remove_markup


def marked_texts(marked: str) -> list[tuple[str, int]]:
    cleaned = remove_markup(marked)
    return [(span.chars.of(cleaned.text), span.number) for span in cleaned.spans]


def test_marked_text_replaces_its_bracket_and_keeps_its_number():
    cleaned = remove_markup("Boats reach [ 2 the north pier ] at noon.")
    assert cleaned.text == "Boats reach the north pier at noon."
    assert marked_texts("Boats reach [ 2 the north pier ] at noon.") == [("the north pier", 2)]


@pytest.mark.parametrize("mark", list(".,;:!?)"))
def test_blank_between_bracket_and_closing_punctuation_is_dropped(mark):
    assert remove_markup(f"It is [ 1 red ] {mark} Then blue").text == f"It is red{mark} Then blue"


def test_characters_after_a_dropped_blank_are_counted_in_the_cleaned_text():
    marked = "It was [ 1 red ] , later [ 3 blue ] ."
    assert remove_markup(marked).text == "It was red, later blue."
    assert marked_texts(marked) == [("red", 1), ("blue", 3)]


def test_blank_before_an_opening_bracket_or_quote_stays():
    assert remove_markup('[ 1 Red ] (or [ 2 blue ] "pale")').text == 'Red (or blue "pale")'


def test_blank_before_punctuation_elsewhere_stays():
    assert remove_markup("Oddly , [ 1 red ] .").text == "Oddly , red."


def test_neighbouring_brackets_keep_the_blank_between_them():
    assert remove_markup("[ 1 The keeper ] [ 2 left in May. ]").text == "The keeper left in May."


def test_leading_blank_inside_a_bracket_joins_the_text_but_not_the_span():
    marked = "The film was shot[ 24  at the castle ] in June."
    assert remove_markup(marked).text == "The film was shot at the castle in June."
    assert marked_texts(marked) == [("at the castle", 24)]


def test_word_that_repeats_is_found_where_it_was_marked():
    cleaned = remove_markup("Ada met Ada, then [ 1 Ada ] left.")
    assert cleaned.spans[0].chars.char_start == len("Ada met Ada, then ")


def test_citations_and_plain_brackets_are_left_alone():
    text = "Seen in 1874 [1], again [sic] in [ x ]."
    assert remove_markup(text).text == text
    assert remove_markup(text).spans == ()


def test_characters_outside_the_basic_plane_count_as_one():
    cleaned = remove_markup("🙂🙂 [ 1 灯台 🗼 ] .")
    assert cleaned.text == "🙂🙂 灯台 🗼."
    assert cleaned.spans[0].chars.char_start == 3


@pytest.mark.parametrize(
    ("marked", "problem"),
    [
        ("It is [ 1 red.", "never closed"),
        ("It is [ 1 red and [ 2 blue ].", "before the next opens"),
        ("It is [ 1   ] .", "holds no text"),
    ],
)
def test_broken_markup_is_refused(marked, problem):
    with pytest.raises(ValueError, match=problem):
        remove_markup(marked)


words = st.text(alphabet="abc é灯🙂", min_size=1, max_size=8).filter(
    lambda text: text.strip() == text and "  " not in text
)


@given(st.lists(st.tuples(words, words, st.integers(1, 99)), max_size=4))
def test_every_span_holds_the_text_that_was_marked(pieces):
    marked = " ".join(f"{plain} [ {number} {inner} ]" for plain, inner, number in pieces)
    assert marked_texts(marked) == [(inner, number) for _, inner, number in pieces]
    assert remove_markup(marked).text == " ".join(f"{plain} {inner}" for plain, inner, _ in pieces)
