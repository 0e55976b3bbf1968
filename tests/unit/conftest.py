"""Fixtures of unit tests."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def no_fsync() -> Iterator[None]:
    """Disable fsync, which would make thousands of cases slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield
