"""Commands against a server that answers with texts which are made to deceive the terminal."""

import sys
from pathlib import Path

import httpx
import pytest

from artel.cli.main import main
from artel.client.credentials import Credentials
from artel.client.hidden_characters import hidden_characters

SERVER = "https://artel.example.org"
HOSTILE = "wrong\x1b]0;title\x07\x1b[2J\x9b1m\x08\rDone.\u202e\u2066\u200b\ufeff\U000e0041"
COMMANDS = [
    "logout",
    "logout --json",
    "link",
    "sessions list",
    "sessions revoke 1",
    "projects list",
    "projects list --json",
    "agents list --project 1",
    "workflows list --project 1",
    "workflows follow 1",
    "models list",
    "node list",
    "chat --project 1 hello",
    "doctor",
]


@pytest.mark.req("SEC-03.1")
@pytest.mark.parametrize("detail", [HOSTILE, [HOSTILE], {HOSTILE: 1}], ids=["text", "list", "object"])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_server_refuses_with_is_shown_escaped(
    command: str, detail: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_client: httpx.Client, method: str, path: str, **_options: object) -> httpx.Response:
        body = {"code": HOSTILE, "detail": detail}
        return httpx.Response(418, json=body, request=httpx.Request(method, f"{SERVER}{path}"))

    monkeypatch.setenv("ARTEL_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("ARTEL_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(httpx.Client, "request", refuse)
    monkeypatch.setattr(sys, "argv", ["artel", *command.split()])
    Credentials.load().remember(SERVER, "token")

    with pytest.raises(SystemExit):
        main()

    printed = capsys.readouterr()
    assert "wrong" in printed.out + printed.err
    assert [*hidden_characters((printed.out + printed.err).replace("\n", ""))] == []
