"""Schemathesis over the whole OpenAPI document, with two users who must not see each other's objects.

`make test` tries the values at the edges of every schema, on SQLite; `make test-deep` also random ones and chains of
requests, on both databases.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import StartServer
from tests.depth import IS_DEEP
from tests.people import Person
from tests.tokens import claims_for, signed

PHASES = "examples,coverage,fuzzing,stateful" if IS_DEEP else "coverage"
CONFIGURATION = """
[auth.wfc]
path = "{users}"
peers = ["ada", "bob"]

[generation]
deterministic = true
max-examples = 5

# A key that was used for another message is refused with 422, and large numbers are rounded: no schema can say that.
[[operations]]
include-name = "POST /my/chat/{{session_id}}/message"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422", "429", "5xx"]

[[operations]]
include-name = "POST /my/chat/sessions"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422", "429", "5xx"]

[[operations]]
include-name = "POST /my/chat/{{session_id}}/turns/{{turn_id}}/retry"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422", "429", "5xx"]

# What an agent file must contain is checked by the reader of the file, not by the schema of the request.
[[operations]]
include-name = "POST /my/projects/{{project_id}}/agents/import"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422"]

# Most bytes are neither a text nor an image, which no schema can say.
[[operations]]
include-name = "POST /my/chat/{{session_id}}/attachments"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422", "429", "5xx"]

# Changes and instructions go with the approval of a plan only: that depends on what the approval is for.
[[operations]]
include-name = "POST /my/approvals/{{approval_id}}/confirm"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422", "429", "5xx"]

# How long a key may be valid is a setting of the server.
[[operations]]
include-name = "POST /auth/sessions"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429", "5xx"]

# One proof of several is needed, which the schema does not say, and too many wrong ones are refused.
[[operations]]
include-name = "POST /auth/browser"
checks.positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "409", "422", "429", "5xx"]

[[operations]]
include-name = "POST /auth/password"
checks.positive_data_acceptance.expected-statuses = ["2xx", "403", "409", "429", "5xx"]

# A range of days that is too long, or ends before it begins, is refused with 422: no schema can say that.
[[operations]]
include-name = "GET /my/usage"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "422"]

# No folder is connected here: that is said with 503. A hash goes with a turn and a path only: no schema can say that.
[[operations]]
include-name = "POST /my/projects/{{project_id}}/undo"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422", "5xx"]
checks.not_a_server_error.expected-statuses = ["2xx", "4xx", "503"]
"""


@pytest.mark.timeout(900)
@pytest.mark.any_database
@pytest.mark.req("UWS-09.3")
def test_no_request_breaks_the_server_or_the_document_or_reaches_another_user(
    start_server: StartServer, tmp_path: Path
) -> None:
    url = start_server(ARTEL_LOG_LEVEL="warning").url
    Person.register(url)  # the administrator, who may reset the space of others
    users = tmp_path / "users.json"
    users.write_text(json.dumps({"auth": [_entry("ada", Person.register(url)), _entry("bob", Person.register(url))]}))
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(CONFIGURATION.format(users=users))

    run = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            "--config-file",
            configuration,
            "run",
            f"{url}/openapi.json",
            "--no-color",
            f"--phases={PHASES}",
            "--request-timeout=30",
            "--exclude-path-regex=/events$",  # streams that do not end
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=800,
        check=False,
    )

    assert run.returncode == 0, run.stdout[-60_000:] + run.stderr[-2000:]
    [(selected, there)] = re.findall(r"Selected: (\d+)/(\d+)", run.stdout)
    assert int(there) - int(selected) == 2, run.stdout[-3000:]  # the streams


def _entry(name: str, person: Person) -> dict[str, object]:
    token = signed(claims_for(person.user_id, exp=int(time.time()) + 3600))  # of no login, which a request could end
    return {"name": name, "fixedHeaders": [{"name": "Authorization", "value": f"Bearer {token}"}]}
