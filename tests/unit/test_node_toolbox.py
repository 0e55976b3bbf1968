"""The tools of a node under the rules of its agent's file: white list, approvals, paths, limits, audit."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from artel.brain.brain import ToolCall
from artel.contract.agent_file import BUILTIN_TOOLS
from artel.nodes.toolbox import SharedTools, node_toolbox
from artel.settings import Settings
from artel.tools.consent import Consent, Decision, NeedsApproval
from artel.tools.policy import Level
from artel.tools.programs import CodeExecute, Shell
from artel.tools.tool import BaseTool, Tool, ToolResult
from tests.agents import Repeat
from tests.node_files import ANN, BOB, agent_file, call, shared_tools

pytestmark = pytest.mark.anyio

READS = {"file_read": {"allowed_paths": ["**"]}}
WRITES = {"file_write": {"enabled": True, "requires_approval": False, "allowed_paths": ["**"]}, **READS}


def names(shared: SharedTools) -> list[str]:
    return sorted(schema.name for schema in node_toolbox(shared, ANN).schemas)


@pytest.mark.req("AGT-02.5", "AGT-02.1")
async def test_agent_has_what_is_enabled_allowed_and_switched_on(tmp_path: Path) -> None:
    every = ("file_read", "file_write", "api_call", "code_execute", "shell")
    enabled = shared_tools(tmp_path, agent_file(*every, security=READS))
    allowed = shared_tools(tmp_path, agent_file("file_read", "shell", security={**READS, "allowed_tools": ["shell"]}))
    switched_on = shared_tools(tmp_path, agent_file(*every, security={**WRITES, "shell": {"enabled": True}}))
    switched_off = shared_tools(tmp_path, agent_file("file_read", security={"file_read": {"enabled": False}}))

    assert names(enabled) == ["file_read"]  # the others are off unless the file switches them on
    assert names(allowed) == []
    assert names(switched_on) == ["file_read", "file_write", "shell"]
    assert names(switched_off) == []
    refused = await call(enabled, ANN, "file_write", path="a.txt", content="x")
    assert refused.error == "There is no tool 'file_write'. Your tools: file_read."


@pytest.mark.req("AGT-02.4")
async def test_tools_have_the_levels_of_the_specification(tmp_path: Path) -> None:
    api = {"enabled": True, "hosts": [{"host": "example.org"}]}
    security = {**WRITES, "api_call": api, **{name: {"enabled": True} for name in ("code_execute", "shell")}}
    file = agent_file(*BUILTIN_TOOLS, security=security, memory={"long_term": {"enabled": True}})
    shared = shared_tools(tmp_path, file)
    levels = {tool.name: tool.level for tool in node_toolbox(shared, ANN)._tools.values()}

    await shared.close()
    assert levels == {
        "web_search": Level.SAFE,
        "web_fetch": Level.SAFE,
        "memory_read": Level.SAFE,
        "memory_write": Level.SAFE,
        "file_read": Level.MODERATE,
        "file_write": Level.RESTRICTED,
        "api_call": Level.RESTRICTED,
        "code_execute": Level.CRITICAL,
        "shell": Level.CRITICAL,
    }


@pytest.mark.req("AGT-02.4", "AGT-02.6")
@pytest.mark.parametrize("tool", ["file_read", "file_write"])
def test_file_tools_without_allowed_paths_are_refused(tool: str) -> None:
    with pytest.raises(ValidationError, match=f"name the files that {tool} may use"):
        agent_file(tool, security={tool: {"enabled": True}})


@pytest.mark.req("AGT-02.7", "AGT-02.1")
async def test_file_write_waits_for_a_person_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    asks = {"file_write": {"enabled": True, "allowed_paths": ["**"]}, **READS}
    shared = shared_tools(tmp_path, agent_file("file_read", "file_write", security=asks))

    with pytest.raises(NeedsApproval) as needed:
        await call(shared, ANN, "file_write", path="notes.txt", content="Hello")
    assert needed.value.question.arguments == {"path": "notes.txt", "content": "Hello"}
    approved = Consent({needed.value.question.hash: Decision("approval_1", "approved")})
    other = ToolCall("1", "file_write", '{"path": "notes.txt", "content": "Other"}')
    with pytest.raises(NeedsApproval):
        await node_toolbox(shared, ANN, approved).call(other, 10**9)
    assert not (await call(shared, ANN, "file_read", path="notes.txt")).success

    written = await call(shared, ANN, "file_write", approved=True, path="notes.txt", content="Hello")
    assert written.data == {"path": "notes.txt", "size": 5, "created": True}
    read = await call(shared, ANN, "file_read", path="notes.txt")
    assert read.data == {"path": "notes.txt", "size": 5, "content": "Hello"}


@pytest.mark.req("AGT-02.7")
@pytest.mark.parametrize("tool", [CodeExecute, Shell])
async def test_programs_always_wait_for_a_person(tmp_path: Path, tool: type[Tool]) -> None:
    security = {tool.name: {"enabled": True, "requires_approval": None}}
    shared = shared_tools(tmp_path, agent_file(tool.name, security=security))
    shared.sandbox._problem = None  # whether it works is not the question here

    with pytest.raises(NeedsApproval) as needed:
        await call(shared, ANN, tool.name, approved=False, **{"code" if tool is CodeExecute else "command": "exit 1"})
    assert needed.value.question.risk == "high"


@pytest.mark.req("AGT-02.6")
async def test_paths_are_limited_to_allowed_globs_and_never_to_secrets(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for path in (
        "open/a.txt",
        "open/deep/b.txt",
        "open/.env",
        "open/secrets/key.txt",
        "open/draft.tmp",
        "closed/c.txt",
    ):
        (data / path).parent.mkdir(parents=True, exist_ok=True)
        (data / path).write_text(path)
    (data / "open/link.txt").symlink_to(data / "closed/c.txt")
    (data / "open/relative.txt").symlink_to("../closed/c.txt")
    (data / "open/inside.txt").symlink_to(".env")
    rules = {"allowed_paths": [f"{data}/open/**"], "denied_paths": ["**/*.tmp"]}
    shared = shared_tools(tmp_path, agent_file("file_read", security={"file_read": rules}))

    async def read(path: Any) -> ToolResult:
        return await call(shared, ANN, "file_read", path=str(path))

    for allowed in ("open/a.txt", "open/deep/b.txt"):
        result = await read(data / allowed)
        assert isinstance(result.data, dict)
        assert result.data["content"] == allowed
    refused = [
        *(data / "open" / name for name in (".env", "secrets/key.txt", "draft.tmp", ".ENV", "deep/../../closed/c.txt")),
        *(data / "open" / name for name in ("link.txt", "relative.txt", "inside.txt")),
        data / "closed/c.txt",
        "/etc/passwd",
        "open/a.txt",  # a file of its own folder, for which there is no glob
        f"/{data}/open/../closed/c.txt",
    ]
    for denied in refused:
        result = await read(denied)
        assert not result.success, denied
        assert "closed/c.txt" not in str(result.data)


@pytest.mark.req("AGT-02.6")
async def test_state_of_the_machine_and_data_of_artel_are_never_files(tmp_path: Path) -> None:
    security = {"file_read": {"allowed_paths": ["/**"]}}
    shared = shared_tools(tmp_path, agent_file("file_read", security=security))
    (tmp_path / "artel").mkdir()
    (tmp_path / "artel/artel.db").write_text("the database")
    (tmp_path / "plain.txt").write_text("plain")
    (tmp_path / "proc.txt").symlink_to("../" * (len(tmp_path.parts) - 1) + "proc/self/environ")

    assert (await call(shared, ANN, "file_read", path=str(tmp_path / "plain.txt"))).success
    for path in ("/proc/self/environ", "/dev/zero", tmp_path / "artel/artel.db", tmp_path / "proc.txt"):
        refused = await call(shared, ANN, "file_read", path=str(path))
        assert not refused.success, path


@pytest.mark.req("AGT-02.6")
async def test_tenants_have_folders_of_their_own(tmp_path: Path) -> None:
    shared = shared_tools(tmp_path, agent_file("file_read", "file_write", security=WRITES))

    assert (await call(shared, ANN, "file_write", path="a/plan.txt", content="Ann's")).success
    theirs = await call(shared, BOB, "file_read", path="a/plan.txt")
    outside = await call(shared, BOB, "file_read", path="../user1_project10/a/plan.txt")

    assert theirs.error == "file_not_found: Path a/plan.txt does not exist"
    assert not outside.success
    assert (await call(shared, ANN, "file_read", path="a/plan.txt")).success
    mode = (shared.folder / "files/user1_project10").stat().st_mode
    assert stat.S_IMODE(mode) == 0o700


@pytest.mark.req("AGT-02.6")
async def test_globs_limit_the_own_folder_too(tmp_path: Path) -> None:
    rules = {"enabled": True, "requires_approval": False, "allowed_paths": ["notes/*.md"]}
    shared = shared_tools(tmp_path, agent_file("file_write", security={"file_write": rules}))

    allowed = await call(shared, ANN, "file_write", path="notes/a.md", content="x")
    refused = [await call(shared, ANN, "file_write", path=path, content="x") for path in ("a.md", "notes/a.txt")]

    assert allowed.success
    assert [str(result.error).partition(":")[0] for result in refused] == ["file_write was not called"] * 2
    assert "Allowed: notes/*.md" in str(refused[0].error)


@pytest.mark.req("AGT-02.1")
async def test_own_folder_has_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.tools.node_files.MAX_OWN_ENTRIES", 3)
    monkeypatch.setattr("artel.tools.node_files.MAX_OWN_BYTES", 100)
    shared = shared_tools(tmp_path, agent_file("file_write", security=WRITES))

    too_large = await call(shared, ANN, "file_write", path="0.txt", content="x" * 101)
    results = [(await call(shared, ANN, "file_write", path=f"{number}.txt", content="x")) for number in range(4)]

    assert "may hold 100 bytes" in str(too_large.error)
    assert [result.success for result in results] == [True, True, True, False]


@pytest.mark.req("AGT-02.1")
async def test_file_that_programs_execute_needs_a_person_although_writing_is_free(tmp_path: Path) -> None:
    rules = {"enabled": True, "requires_approval": False, "allowed_paths": [f"{tmp_path}/home/**"]}
    shared = shared_tools(tmp_path, agent_file("file_write", security={"file_write": rules}))
    (tmp_path / "home").mkdir()

    assert (await call(shared, ANN, "file_write", path=f"{tmp_path}/home/a.txt", content="x")).success
    with pytest.raises(NeedsApproval):
        await call(shared, ANN, "file_write", path=f"{tmp_path}/home/.bashrc", content="x")


@pytest.mark.req("AGT-02.8")
async def test_every_call_is_in_the_audit_log_without_contents(tmp_path: Path) -> None:
    asks = {**WRITES, "file_write": {"enabled": True, "allowed_paths": ["**"]}}
    shared = shared_tools(tmp_path, agent_file("file_read", "file_write", security=asks))
    content = "the text of a private letter"

    with pytest.raises(NeedsApproval):
        await call(shared, ANN, "file_write", path="letter.txt", content=content)
    await call(shared, ANN, "file_write", approved=True, path="letter.txt", content=content)
    await call(shared, BOB, "file_read", path="../letter.txt")
    await call(shared, BOB, "unknown")

    text = (shared.folder / "tool-calls.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["tool"], line["status"], line["user_id"], line["task_id"]) for line in lines] == [
        ("file_write", "asked", 1, "task_1"),
        ("file_write", "done", 1, "task_1"),
        ("file_read", "refused", 2, "task_2"),
        ("unknown", "refused", 2, "task_2"),
    ]
    assert lines[1]["approval_id"] == "approval_1"
    assert lines[1]["arguments"]["content"]["bytes"] == len(content)
    assert content not in text
    assert stat.S_IMODE((shared.folder / "tool-calls.jsonl").stat().st_mode) == 0o600


@pytest.mark.req("AGT-02.8")
async def test_audit_log_is_bounded(tmp_path: Path) -> None:
    shared = shared_tools(tmp_path, agent_file("file_read", security=READS))
    shared.audit._file._max_bytes = 1_000
    for number in range(60):
        await call(shared, ANN, "file_read", path=f"{number}.txt", offset=number)

    files = sorted(path.name for path in shared.folder.glob("tool-calls*"))
    assert 2 <= len(files) <= 4
    assert sum(path.stat().st_size for path in shared.folder.glob("tool-calls*")) < 6_000


@pytest.mark.req("AGT-02.9", "AGT-02.12")
async def test_calls_per_minute_are_a_setting_and_count_all_tasks_of_a_tenant(tmp_path: Path) -> None:
    shared = shared_tools(tmp_path, agent_file("file_read", security=READS), max_api_calls_per_minute=2)

    mine = [(await call(shared, ANN, "file_read", path="a.txt")).error for _ in range(3)]
    theirs = await call(shared, BOB, "file_read", path="a.txt")

    assert [str(error).startswith("file_not_found") for error in mine] == [True, True, False]
    assert "2 tool calls were made in the last minute" in str(mine[2])
    assert "file_not_found" in str(theirs.error)


@pytest.mark.req("AGT-02.9", "AGT-02.12")
def test_limits_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ARTEL_MAX_TOOL_CALLS_PER_TASK", "7")
    monkeypatch.setenv("ARTEL_MAX_API_CALLS_PER_MINUTE", "30")
    settings, defaults = Settings(data_dir=tmp_path), Settings.model_construct()

    assert (settings.max_tool_calls_per_task, settings.max_api_calls_per_minute) == (7, 30)
    assert (defaults.max_tool_calls_per_task, defaults.max_api_calls_per_minute) == (20, 60)


async def test_tool_of_the_worker_space_wins_on_a_name_clash(tmp_path: Path) -> None:
    shared = shared_tools(tmp_path, agent_file("file_read", security=READS), max_api_calls_per_minute=1)
    space_tool = Repeat("file_read")
    toolbox = node_toolbox(shared, ANN, space_tools=[space_tool])

    for _ in range(2):  # its limits are those of the worker space
        await toolbox.call(ToolCall("1", "file_read", '{"text": "x"}'), 10**9)
    assert space_tool.calls == [{"text": "x"}, {"text": "x"}]


class CountWords(BaseTool):
    """A tool as another package would write it."""

    name = "count_words"
    description = "Count the words of a text."
    parameters_schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}  # noqa: RUF012

    def execute(self, text: str) -> ToolResult:
        return ToolResult(success=True, data={"words": len(text.split())})


class CountLater(CountWords):
    async def execute(self, text: str) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return len(text.split())


@pytest.mark.req("AGT-02.12", "AGT-02.2")
async def test_tool_has_the_fields_and_methods_of_the_specification(tmp_path: Path) -> None:
    shared = shared_tools(tmp_path, agent_file("file_read", security=READS))
    [built_in] = node_toolbox(shared, ANN)._tools.values()
    own = CountWords()

    for tool in (built_in, own):
        assert tool.to_openai_schema() == {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters_schema,
            },
        }
    assert own.schema.parameters["required"] == ["text"]
    executed = built_in.execute(path="a.txt")
    assert not isinstance(executed, ToolResult)
    assert "file_not_found" in str((await executed).error)
    assert own.execute(text="one two").data == {"words": 2}
    assert (await own.call({"text": "one two"})).data == {"words": 2}
    assert (await CountLater().call({"text": "one two"})).data == 2
