"""The type of an attached file, read from its content: neither its name nor what the client says is believed."""

import struct
from dataclasses import dataclass
from typing import Literal

from artel.errors import AttachmentInvalid

MAX_BYTES = 10 * 1024 * 1024
MAX_PIXELS_PER_SIDE = 65_535
TEXT = "text/plain"

_JPEG_START = b"\xff\xd8\xff"
_PNG_START = b"\x89PNG\r\n\x1a\n"
_GIF_STARTS = (b"GIF87a", b"GIF89a")
_JPEG_MARK = 0xFF
# Segments of a JPEG file that hold its size: all starts of frames, without the tables between them (C4, C8, CC).
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_MAX_JPEG_SEGMENTS = 10_000


@dataclass(frozen=True, slots=True)
class FileType:
    """What a file is: an image with its size in pixels, or a text with its number of lines."""

    kind: Literal["text", "image"]
    media_type: str
    lines: int | None = None
    width: int | None = None
    height: int | None = None


def file_type(name: str, content: bytes) -> FileType:
    """Return the type of a file; raise AttachmentInvalid if it is empty, damaged, or no text or known image."""
    if not content:
        raise AttachmentInvalid(f"{name} is empty. Attach a file with content.")
    media_type = _image_type(content)
    if media_type is not None:
        try:
            width, height = _SIZES[media_type](content)
        except (struct.error, IndexError, ValueError):
            width = height = 0
        if not (0 < width <= MAX_PIXELS_PER_SIDE and 0 < height <= MAX_PIXELS_PER_SIDE):
            raise AttachmentInvalid(f"{name} is a damaged image: its size can't be read. Save it again and attach it.")
        return FileType("image", media_type, width=width, height=height)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\x00"
    if "\x00" in text:
        raise AttachmentInvalid(
            f"{name} is neither a text in UTF-8 nor a PNG, JPEG, GIF or WebP image. "
            "Convert it to one of these, or paste the part that matters into the message."
        )
    return FileType("text", TEXT, lines=text.count("\n") + (not text.endswith("\n")))


def _image_type(content: bytes) -> str | None:
    if content.startswith(_PNG_START):
        return "image/png"
    if content.startswith(_JPEG_START):
        return "image/jpeg"
    if content.startswith(_GIF_STARTS):
        return "image/gif"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return None


def _png_size(content: bytes) -> tuple[int, int]:
    if content[12:16] != b"IHDR":
        raise ValueError
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def _gif_size(content: bytes) -> tuple[int, int]:
    width, height = struct.unpack("<HH", content[6:10])
    return width, height


def _webp_size(content: bytes) -> tuple[int, int]:
    form = content[12:16]
    if form == b"VP8X":
        wide, high = struct.unpack("3s3s", content[24:30])
        return 1 + int.from_bytes(wide, "little"), 1 + int.from_bytes(high, "little")
    if form == b"VP8L" and content[20:21] == b"\x2f":
        [bits] = struct.unpack("<I", content[21:25])
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if form == b"VP8 " and content[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", content[26:30])
        return width & 0x3FFF, height & 0x3FFF
    raise ValueError


def _jpeg_size(content: bytes) -> tuple[int, int]:
    at = 2
    for _ in range(_MAX_JPEG_SEGMENTS):
        if content[at] != _JPEG_MARK:
            raise ValueError
        marker = content[at + 1]
        if marker == _JPEG_MARK:  # a fill byte
            at += 1
        elif marker in _JPEG_WITHOUT_LENGTH:
            at += 2
        elif marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
            return width, height
        else:
            at += 2 + struct.unpack(">H", content[at + 2 : at + 4])[0]
    raise ValueError


_SIZES = {"image/png": _png_size, "image/jpeg": _jpeg_size, "image/gif": _gif_size, "image/webp": _webp_size}
