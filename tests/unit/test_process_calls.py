"""Documents of answers between server processes, of this release and the one before."""

from typing import Any

import pytest

from artel.contract.connector import ANSWERS
from artel.contract.process_calls import RelayAnswer, SpaceAnswer, SpaceReset, StoredAnswer
from tests.stored import document, names

KIND, VERSIONS = "process_calls", ("unversioned", "version_1")


def answer_type(name: str) -> type[StoredAnswer]:
    return SpaceAnswer if name.startswith("space") else RelayAnswer


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", names(KIND, "version_1"))
def test_answer_of_either_release_is_read_and_stored_for_both(name: str, version: str) -> None:
    answer = answer_type(name).model_validate(document(KIND, version, name))

    dumped = answer.dump()

    assert dumped == document(KIND, "version_1", name)
    # The previous release tells an answer by the keys that are there.
    assert dumped.keys() - {"version"} == document(KIND, "unversioned", name).keys()


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_have_the_result_the_error_or_what_became_of_the_connection(version: str) -> None:
    def stored(name: str) -> Any:
        return answer_type(name).model_validate(document(KIND, version, name))

    assert SpaceReset.model_validate(stored("space_result").result).cancelled_turns == 2
    assert stored("space_error").result is None
    assert stored("space_error").error.code == "agent_not_found"
    assert (stored("relay_lost").lost, stored("relay_result").lost) == (True, None)
    assert ANSWERS["workspace/read"].model_validate(stored("relay_result").result).success
    assert stored("relay_disconnected").disconnected
