"""How thorough a run of the tests is.

`make test` takes the short form of what is slow by nature: fault runs, hostile scenarios, generated cases, the second
database where nothing depends on it. `make test-deep` takes the full form of all of it.
"""

import os

IS_DEEP = os.environ.get("ARTEL_TEST_DEPTH") == "deep"


def by_depth(short: int, deep: int) -> int:
    """Return how many cases to try in this run."""
    return deep if IS_DEEP else short
