"""The type of attached files is found in their content."""

import pytest

from artel.attachments.file_types import FileType, file_type
from artel.errors import AttachmentInvalid
from tests import images


@pytest.mark.req("CHT-20.1")
@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (images.png(320, 200), "image/png"),
        (images.jpeg(320, 200), "image/jpeg"),
        (images.gif(320, 200), "image/gif"),
        (images.webp("VP8X", 320, 200), "image/webp"),
        (images.webp("VP8L", 320, 200), "image/webp"),
        (images.webp("VP8 ", 320, 200), "image/webp"),
    ],
)
def test_image_is_known_by_its_first_bytes_and_measured(content: bytes, media_type: str) -> None:
    assert file_type("notes.txt", content) == FileType("image", media_type, width=320, height=200)


@pytest.mark.req("CHT-20.1")
@pytest.mark.parametrize(
    ("content", "lines"),
    [(b"one", 1), (b"one\n", 1), (b"one\ntwo", 2), ("\ufeffпривет\n你好\n".encode(), 2), (b"<svg/>", 1)],
)
def test_everything_else_in_utf_8_is_text(content: bytes, lines: int) -> None:
    assert file_type("photo.png", content) == FileType("text", "text/plain", lines=lines)


@pytest.mark.req("CHT-20.1")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"one\0two",
        b"\xff\xfeo\0n\0e\0",
        "caf\u00e9".encode("latin-1"),
        b"%PDF-1.7\n\xe2\xe3",
        images.png(0, 200),
        images.png()[:18],
        images.jpeg()[:12],
        images.gif()[:8],
        images.webp("VP8X")[:20],
        b"\xff\xd8\xff" + b"\xff" * 100_000,
    ],
)
def test_other_and_damaged_files_are_refused(content: bytes) -> None:
    with pytest.raises(AttachmentInvalid, match=r"photo\.png"):
        file_type("photo.png", content)
