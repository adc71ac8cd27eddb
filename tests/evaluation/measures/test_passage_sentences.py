from attribeam.attribution.answers.text_sentences import text_sentences
from attribeam.evaluation.measures.accuracy import best_sentences
from attribeam.schemas import CharRange, EvidencePiece, Passage

SEA = "The lamp burns. Mr. Reed lit it in 1874. Gulls cry."
PASSAGES = [Passage(text=SEA), Passage(text="A bell rings.\nNo lamp.")]


def piece(text: str, score: float, passage_index: int = 0) -> EvidencePiece:
    start = PASSAGES[passage_index].text.index(text)
    return EvidencePiece(passage_index, None, False, CharRange(start, start + len(text)), text, score)


def best(*evidence: EvidencePiece) -> list[str]:
    return [one.chars.of(PASSAGES[one.passage_index].text) for one in best_sentences(evidence, PASSAGES)]


def texts(text: str) -> list[str]:
    return [sentence.of(text) for sentence in text_sentences(text)]


def test_sentences_end_at_marks_but_not_after_an_abbreviation():
    assert texts(SEA) == ["The lamp burns.", "Mr. Reed lit it in 1874.", "Gulls cry."]


def test_closing_quote_belongs_to_its_sentence():
    assert texts('"A lamp!" He ran.') == ['"A lamp!"', "He ran."]


def test_line_ends_a_sentence_without_a_mark():
    assert texts("  The coast \n\nA lamp\tburns") == ["The coast", "A lamp\tburns"]


def test_text_of_white_space_has_no_sentence():
    assert texts(" \n ") == []


def test_pieces_of_one_sentence_are_summed():
    assert best(piece("Gulls", 0.9), piece("Reed", 1.0), piece("1874", 1.0)) == ["Mr. Reed lit it in 1874."]


def test_sentence_below_half_of_the_best_is_left_out():
    assert best(piece("lamp", 1.0), piece("Reed", 0.49)) == ["The lamp burns."]
    assert best(piece("lamp", 1.0), piece("Reed", 0.5)) == ["The lamp burns.", "Mr. Reed lit it in 1874."]


def test_sentence_of_another_passage_is_left_out():
    assert best(piece("lamp", 1.0), piece("bell", 0.9, passage_index=1)) == ["The lamp burns."]


def test_piece_over_two_sentences_gives_each_the_share_of_its_characters():
    # "burns. Mr" has 9 characters: 6 in the first sentence, 2 in the second
    assert best(piece("burns. Mr", 9.0), piece("Gulls", 2.9)) == ["The lamp burns."]
    assert best(piece("burns. Mr", 9.0), piece("Gulls", 3.1)) == ["The lamp burns.", "Gulls cry."]


def test_tie_goes_to_the_first_passage():
    assert best(piece("bell", 1.0, passage_index=1), piece("Gulls", 1.0)) == ["Gulls cry."]


def test_no_evidence_gives_no_sentence():
    assert best() == []
