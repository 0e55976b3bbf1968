"""Uploads in progress: how many a user has, and who loses one when the memory is used up."""

import tracemalloc
from contextlib import ExitStack

import pytest

from artel.attachments.service import MAX_UPLOADS_OF_USER, Uploads
from artel.errors import TooManyUploads


@pytest.mark.req("SEC-02.4")
def test_user_has_so_many_uploads() -> None:
    uploads = Uploads(1000)
    with ExitStack() as begun:
        for _ in range(MAX_UPLOADS_OF_USER):
            begun.enter_context(uploads.begun(1))
        with pytest.raises(TooManyUploads):
            begun.enter_context(uploads.begun(1))
        begun.enter_context(uploads.begun(2))

    with uploads.begun(1) as upload:
        uploads.add(upload, b"ab")
        uploads.add(upload, b"c")
        assert upload.complete() == b"abc"


@pytest.mark.req("SEC-02.4", "SEC-02.5")
def test_user_with_most_memory_loses_the_largest_upload() -> None:
    uploads = Uploads(100)
    with uploads.begun(1) as larger, uploads.begun(1) as smaller, uploads.begun(2) as other:
        uploads.add(larger, b"x" * 40)
        uploads.add(smaller, b"x" * 30)
        uploads.add(other, b"x" * 50)

        assert other.complete() == b"x" * 50
        assert smaller.complete() == b"x" * 30
        with pytest.raises(TooManyUploads):
            uploads.add(larger, b"x")
        with pytest.raises(TooManyUploads):
            larger.complete()


def test_complete_upload_is_not_dropped() -> None:
    uploads = Uploads(100)
    with uploads.begun(1) as first, uploads.begun(2) as second:
        uploads.add(first, b"x" * 90)
        content = first.complete()
        uploads.add(second, b"x" * 20)

        assert len(content) == 90
        with pytest.raises(TooManyUploads):
            second.complete()


@pytest.mark.req("SEC-02.4")
def test_complete_upload_takes_its_memory_once() -> None:
    size = 4_000_000
    chunk = b"x" * size
    with Uploads(2 * size).begun(1) as upload:
        tracemalloc.start()
        try:
            upload.add(chunk)
            content = upload.complete()
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert (len(content), upload.size) == (size, size)
    assert taken < 1.5 * size
