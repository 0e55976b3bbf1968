"""Cutting and checking of text."""

from hypothesis import given
from hypothesis import strategies as st

from artel.text import encodable, is_encodable, is_storable, one_line, shorten, storable

ANY = st.text(st.characters(codec=None, categories=None) | st.sampled_from("\x00\ud800 \n"))


@given(ANY, st.integers(1, 20))
def test_shortened_text_has_at_most_so_many_characters(text: str, most: int) -> None:
    assert shorten(text, most) == (text if len(text) <= most else text[: most - 1] + "…")
    assert len(one_line(text, most)) <= most
    assert "\n" not in one_line(text, most)


@given(ANY)
def test_cleaned_text_can_be_stored(text: str) -> None:
    assert is_encodable(encodable(text))
    assert is_storable(storable(text))
    if is_storable(text):
        assert storable(text) == text


def test_cut_line_ends_at_a_word() -> None:
    assert one_line("two  words\nhere", 5) == "two…"
    assert one_line("two  words\nhere", 14) == "two words here"
