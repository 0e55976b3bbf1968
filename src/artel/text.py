"""Cutting and checking of text."""


def shorten(text: str, most: int) -> str:
    """Return the text cut to `most` characters, the last one an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def one_line(text: str, most: int) -> str:
    """Return the text in one line, with every whitespace as a single space, cut to `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def is_encodable(text: str) -> bool:
    """Return whether the text can be encoded as UTF-8, that is, has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_storable(text: str) -> bool:
    """Return whether PostgreSQL can store the text, that is, it has neither NUL nor a lone surrogate."""
    return "\x00" not in text and is_encodable(text)


def encodable(text: str) -> str:
    """Replace lone surrogates, which a model or a client may send."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def storable(text: str) -> str:
    """Remove NUL and replace lone surrogates, which PostgreSQL can't store."""
    return encodable(text.replace("\x00", ""))
