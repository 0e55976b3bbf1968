"""The smallest images of every kind that can be attached: headers that state a size."""

import struct


def png(width: int = 640, height: int = 480, extra: int = 0) -> bytes:
    """Return the beginning of a PNG file, with so many bytes of padding."""
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x06\0\0\0" + b"\0" * extra


def jpeg(width: int = 640, height: int = 480) -> bytes:
    """Return the beginning of a JPEG file, with a comment before the frame."""
    comment = b"\xff\xfe" + struct.pack(">H", 6) + b"note"
    return b"\xff\xd8" + comment + b"\xff\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3) + b"\0" * 9


def gif(width: int = 640, height: int = 480) -> bytes:
    """Return the beginning of a GIF file."""
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0"


def webp(form: str, width: int = 640, height: int = 480) -> bytes:
    """Return the beginning of a WebP file of the form VP8X, VP8L or `VP8 `."""
    if form == "VP8X":
        body = b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif form == "VP8L":
        body = b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14)
    else:
        body = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    chunk = form.encode() + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk
