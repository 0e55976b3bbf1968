"""The tools of the task workspace: their results and errors for the model."""

import itertools
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from artel.brain.brain import ToolCall
from artel.paths.beneath import Content, Listing, Written
from artel.paths.errors import FolderMoved, PathError, ReadDenied, WriteDenied
from artel.task_workspaces.errors import WorkspaceNotAssigned
from artel.task_workspaces.service import TaskWorkspaces
from artel.task_workspaces.task_workspace import Info, Record, TaskWorkspace
from artel.tools.task_files import CODES, task_file_tools
from artel.tools.tool import MAX_RESULT_CHARACTERS, ToolResult
from artel.tools.toolbox import Toolbox
from tests.depth import by_depth
from tests.path_strategies import paths, traversals

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_fsync")]

NAMES = ["write_file", "read_file", "list_files", "get_workspace_info"]
_numbers = itertools.count(1)


class Files:
    """A task workspace from the view of one agent."""

    def __init__(self, workspace: TaskWorkspace, member: int = 1) -> None:
        self._workspace = workspace
        self._member = member

    async def write(self, path: str, data: bytes) -> Written:
        return self._workspace.write(self._member, path, data)

    async def read(self, path: str) -> Content:
        return self._workspace.read(path, self._member)

    async def list(self, path: str) -> Listing:
        return self._workspace.list(path)

    async def info(self) -> Info:
        return self._workspace.info()

    async def record(self) -> Record:
        return Record(1, "workspaces/1", datetime(2026, 11, 15, tzinfo=UTC), lazy_created=False)


class FailingFiles(Files):
    """A task workspace in which every call fails."""

    def __init__(self, problem: PathError) -> None:
        self._problem = problem

    async def write(self, path: str, data: bytes) -> Written:  # noqa: ARG002
        raise self._problem

    async def read(self, path: str) -> Content:  # noqa: ARG002
        raise self._problem

    async def list(self, path: str) -> Listing:  # noqa: ARG002
        raise self._problem

    async def info(self) -> Info:
        raise self._problem


class ToolCaller:
    """The four tools, called as a model calls them."""

    def __init__(self, files: Files) -> None:
        self.toolbox = Toolbox(task_file_tools(files), NAMES)

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        return await self.toolbox.call(ToolCall("call_1", name, json.dumps(arguments)), time.monotonic() + 600)

    async def good(self, name: str, **arguments: Any) -> Any:
        result = await self.call(name, **arguments)
        assert result.success, result.error
        return result.data

    async def bad(self, name: str, **arguments: Any) -> str:
        result = await self.call(name, **arguments)
        assert not result.success, result.data
        assert result.error
        return result.error


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def new_tools(data_dir: Path) -> ToolCaller:
    return ToolCaller(Files(TaskWorkspaces(data_dir).of(next(_numbers))))


@pytest.mark.req("TWS-05.1", "AGT-02.2")
async def test_tool_schemas(data_dir: Path) -> None:
    schemas = {schema.name: schema.parameters for schema in new_tools(data_dir).toolbox.schemas}

    assert list(schemas) == NAMES
    assert schemas["write_file"]["required"] == ["path", "content"]
    assert schemas["read_file"]["required"] == ["path"]
    listing: Any = schemas["list_files"]["properties"]
    assert listing["path"]["default"] == "."
    assert "required" not in schemas["list_files"]
    assert schemas["get_workspace_info"]["properties"] == {}


@pytest.mark.req("TWS-05.1", "TWS-05.2", "TWS-02.2", "TWS-03.2")
async def test_agent_writes_reads_lists_and_counts_files(data_dir: Path) -> None:
    tools = new_tools(data_dir)
    assert await tools.good("list_files") == {"files": []}
    nothing = {"file_count": 0, "dir_count": 0, "total_size": 0, "last_modified": None}
    empty = await tools.good("get_workspace_info")
    assert empty.pop("record") == {
        "workspaceId": 1,
        "workspacePath": "workspaces/1",
        "createdAt": "2026-11-15T00:00:00+00:00",
        "lazyCreated": False,
    }
    assert empty == nothing

    made = await tools.good("write_file", path="a/b/c.txt", content="Grüße")
    await tools.good("write_file", path="plan.md", content="")

    assert made == {"path": "a/b/c.txt", "size": 7, "created": True}
    assert await tools.good("read_file", path="a/b/c.txt") == {"path": "a/b/c.txt", "size": 7, "content": "Grüße"}
    assert await tools.good("list_files") == {
        "files": [{"name": "a", "type": "directory", "size": 0}, {"name": "plan.md", "type": "file", "size": 0}]
    }
    assert await tools.good("list_files", path="a/b") == {"files": [{"name": "c.txt", "type": "file", "size": 7}]}
    info = await tools.good("get_workspace_info")
    assert (info["file_count"], info["dir_count"], info["total_size"]) == (2, 2, 7)
    assert info["last_modified"].startswith("20")


@pytest.mark.req("TWS-03.1", "TWS-08.1")
@settings(max_examples=by_depth(60, 1000))
@given(path=paths, content=st.text(st.characters(codec="utf-8"), max_size=100))
async def test_text_is_read_back_as_written(data_dir: Path, path: str, content: str) -> None:
    tools = new_tools(data_dir)

    await tools.good("write_file", path=path, content=content)

    assert (await tools.good("read_file", path=path))["content"] == content


@pytest.mark.req("TWS-04.1", "TWS-06.1", "TWS-08.1")
@settings(max_examples=by_depth(60, 1000))
@given(path=traversals)
async def test_path_traversal_has_its_error_code(data_dir: Path, path: str) -> None:
    tools = new_tools(data_dir)

    for name, more in (("write_file", {"content": "x"}), ("read_file", {}), ("list_files", {})):
        assert (await tools.bad(name, path=path, **more)).startswith("path_traversal_blocked: ")


@pytest.mark.req("TWS-05.1", "TWS-06.1", "TWS-08.1")
@settings(max_examples=by_depth(60, 1000))
@given(path=st.text(max_size=30), content=st.text(max_size=30))
async def test_any_path_gives_a_documented_code_and_no_absolute_path(data_dir: Path, path: str, content: str) -> None:
    tools = new_tools(data_dir)

    for result in (
        await tools.call("write_file", path=path, content=content),
        await tools.call("read_file", path=path),
        await tools.call("list_files", path=path),
        await tools.call("get_workspace_info"),
    ):
        assert result.success or (result.error or "").split(":")[0] in CODES
        assert str(data_dir) not in result.text_for_model()


@pytest.mark.req("TWS-06.1")
async def test_each_error_has_its_code(data_dir: Path) -> None:
    tools = new_tools(data_dir)
    await tools.good("write_file", path="folder/file", content="x")

    assert await tools.bad("read_file", path="nothing") == "file_not_found: Path nothing does not exist"
    assert await tools.bad("list_files", path="nothing") == "file_not_found: Path nothing does not exist"
    assert (await tools.bad("read_file", path="folder")).startswith("read_failed: ")
    assert (await tools.bad("write_file", path="folder", content="x")).startswith("write_failed: ")
    assert (await tools.bad("write_file", path="folder/file/x", content="x")).startswith("write_failed: ")
    assert (await tools.bad("write_file", path=".", content="x")).startswith("write_failed: ")
    assert (await tools.bad("write_file", path="n" * 10_000, content="x")).startswith("write_failed: ")
    assert (await tools.bad("read_file", path="zero\u200bwidth")).startswith("read_failed: ")
    half = await tools.toolbox.call(
        ToolCall("1", "write_file", '{"path": "a", "content": "\\ud800"}'), time.monotonic() + 600
    )
    assert "lone surrogate" in (half.error or "")


@pytest.mark.req("TWS-01.4", "TWS-06.1")
async def test_agent_without_a_workspace_gets_an_error() -> None:
    tools = ToolCaller(FailingFiles(WorkspaceNotAssigned()))

    for name, arguments in (
        ("write_file", {"path": "a", "content": "x"}),
        ("list_files", {}),
        ("get_workspace_info", {}),
    ):
        assert (await tools.bad(name, **arguments)).startswith("workspace_not_assigned: ")


@pytest.mark.req("TWS-06.1")
async def test_permission_errors_are_returned_and_logged() -> None:
    with capture_logs() as logged:
        denied = await ToolCaller(FailingFiles(WriteDenied("a"))).bad("write_file", path="a", content="x")
        unread = await ToolCaller(FailingFiles(ReadDenied("a"))).bad("read_file", path="a")

    assert (denied, unread) == (
        "permission_denied: Permission denied to write to a",
        "permission_denied: Permission denied to read a",
    )
    logged_calls = [(line["tool"], line["path"]) for line in logged if line["event"] == "permission_denied"]
    assert logged_calls == [("write_file", "a"), ("read_file", "a")]


@pytest.mark.req("TWS-06.1")
async def test_other_error_codes_are_mapped_to_documented_ones() -> None:
    tools = ToolCaller(FailingFiles(FolderMoved()))

    assert (await tools.bad("write_file", path="a", content="x")).startswith("write_failed: ")
    assert (await tools.bad("get_workspace_info")).startswith("read_failed: ")


@pytest.mark.parametrize("letter", ["x", "\x00", "\n", "漢", '"'])
async def test_long_file_is_read_in_parts(data_dir: Path, letter: str) -> None:
    tools = new_tools(data_dir)
    text = "".join(f"{number}{letter}" for number in range(9_000))
    await tools.good("write_file", path="long", content=text)

    parts, offset = [], 0
    while True:
        result = await tools.call("read_file", path="long", offset=offset)
        data = json.loads(result.text_for_model())["data"]  # valid JSON, also where escapes make it longer
        assert len(result.text_for_model()) <= MAX_RESULT_CHARACTERS
        assert "content" in data
        parts.append(data["content"])
        offset += len(parts[-1])
        if "cut" not in data:
            break
        assert f"Read on with offset {offset}." in data["cut"]

    assert len(parts) > 2
    assert "".join(parts) == text


async def test_binary_files_are_marked(data_dir: Path) -> None:
    workspaces = TaskWorkspaces(data_dir)
    owner = next(_numbers)
    workspaces.of(owner).write(1, "picture.png", b"\x89PNG\xff\xfe")

    picture = await ToolCaller(Files(workspaces.of(owner))).good("read_file", path="picture.png")

    assert (picture["binary"], picture["size"], "content" in picture) == (True, 6, False)


async def test_large_folder_is_listed_in_part(data_dir: Path) -> None:
    owner = next(_numbers)
    (data_dir / "workspaces" / str(owner)).mkdir(parents=True)
    for number in range(250):
        (data_dir / "workspaces" / str(owner) / f"{number:03}").touch()

    listing = await ToolCaller(Files(TaskWorkspaces(data_dir).of(owner))).good("list_files")

    assert [file["name"] for file in listing["files"]] == [f"{number:03}" for number in range(200)]
    assert listing["cut"] == "The first 200 of 250 entries, by name."


async def test_sibling_must_read_a_changed_file_before_writing(data_dir: Path) -> None:
    workspace = TaskWorkspaces(data_dir).of(next(_numbers))
    ada, bob = ToolCaller(Files(workspace, 1)), ToolCaller(Files(workspace, 2))
    await ada.good("write_file", path="plan", content="Ada's")

    refused = await bob.bad("write_file", path="plan", content="Bob's")

    assert refused.startswith("write_failed: plan was changed by another agent")
    await bob.good("read_file", path="plan")
    assert (await bob.good("write_file", path="plan", content="Bob's"))["created"] is False
