"""Delays between attempts, and retries of an operation."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artel.retry import Backoff, retry

pytestmark = pytest.mark.anyio


@given(st.integers(0, 100_000))
def test_delay_doubles_up_to_its_maximum_with_jitter(attempt: int) -> None:
    backoff = Backoff(0.5, 30.0)

    full = min(30.0, 0.5 * 2 ** min(attempt, 20))
    assert full / 2 <= backoff.seconds(attempt) <= full


async def test_operation_is_repeated_until_it_succeeds() -> None:
    failures = [TimeoutError("first"), TimeoutError("second")]
    noted: list[str] = []

    async def operation() -> int:
        if failures:
            raise failures.pop(0)
        return 7

    assert await retry(operation, TimeoutError, Backoff(0.0), lambda error: noted.append(str(error))) == 7
    assert noted == ["first", "second"]


async def test_failure_is_raised_after_the_time_is_over_and_others_at_once() -> None:
    numbers = itertools.count()

    async def operation() -> None:
        if next(numbers) < 100_000:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        await retry(operation, TimeoutError, Backoff(0.001, 0.001), lambda _: None, seconds=0.02)
    with pytest.raises(TimeoutError):
        await retry(operation, KeyError, Backoff(0.001), lambda _: None)
