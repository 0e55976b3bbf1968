"""Decodes texts of the web as browsers do."""

import codecs
import re

HEAD_CHARACTERS = 2_048
PIECE_BYTES = 65_536

# The charsets of the web; other codecs of Python are no charsets, or take quadratic time.
_CHARSETS = re.compile(
    r"utf-?8|utf-?16(?:le|be|-le|-be)?|(?:us-)?ascii|latin1|iso-?8859-[0-9]{1,2}|(?:windows-|cp)125[0-8]|koi8-[ru]"
    r"|gbk|gb2312|gb18030|big5(?:-hkscs)?|euc-(?:jp|kr)|shift[_-]jis|iso-2022-jp|macintosh|ibm866"
)
# What browsers take for these charsets.
_WIDER = {
    "ascii": "cp1252",
    "us-ascii": "cp1252",
    "latin1": "cp1252",
    "iso-8859-1": "cp1252",
    "gb2312": "gb18030",
    "utf-16": "utf-16-le",
    "utf16": "utf-16-le",
}
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META_CHARSET = re.compile(r"<meta[^>]{0,200}?charset=[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)


def decoded(body: bytes, charset: str | None, *, is_html: bool = False) -> str:
    """Return a body as text, with replacement characters for what can't be decoded.

    `charset` is what the server names; HTML may name one itself. A large body needs a thread: with many errors it
    takes seconds.
    """
    for mark, marked in _MARKS:
        if body.startswith(mark):
            return _replaced(body[len(mark) :], marked)
    found = _known_charset(charset or "")
    if found is None and is_html:
        in_page = _META_CHARSET.search(body[:HEAD_CHARACTERS].decode("latin-1"))
        found = _known_charset(in_page[1]) if in_page else None
    if found is not None:
        return _replaced(body, found)
    try:
        return body.decode()
    except UnicodeDecodeError:
        return _replaced(body, "cp1252")  # what browsers take for granted


def _replaced(body: bytes, charset: str) -> str:
    """Decode a body in pieces, between which other threads run."""
    decoder = codecs.getincrementaldecoder(charset)(errors="replace")
    texts: list[str] = []
    for start in range(0, len(body), PIECE_BYTES):
        piece = body[start : start + PIECE_BYTES]
        try:
            texts.append(decoder.decode(piece, final=start + PIECE_BYTES >= len(body)))
        except UnicodeError:  # ISO-2022-JP keeps few bytes for the next piece, which is enough for any text
            decoder.reset()
            texts.append(piece.decode(charset, errors="replace"))
    return "".join(texts)


def _known_charset(name: str) -> str | None:
    name = name.lower()
    if not _CHARSETS.fullmatch(name):
        return None
    try:
        return codecs.lookup(_WIDER.get(name, name)).name
    except LookupError:
        return None
