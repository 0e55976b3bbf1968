"""Tools of other packages by entry point, and LangChain tools."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from artel.brain.brain import ToolCall
from artel.errors import ConfigurationInvalid
from artel.nodes.toolbox import node_toolbox
from artel.tools.consent import NeedsApproval
from artel.tools.policy import Level
from artel.tools.tool import BaseTool, ToolResult
from artel.tools.toolbox import Toolbox
from tests.node_files import ANN, agent_file, call, shared_tools

pytestmark = pytest.mark.anyio

WORDS = """
from artel.tools.policy import Level
from artel.tools.tool import BaseTool, ToolResult

class CountWords(BaseTool):
    name = "count_words"
    description = "Count the words of a text."
    parameters_schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

    def __init__(self):
        self.calls = 0

    def execute(self, text):
        self.calls += 1
        return ToolResult(success=True, data={"words": len(text.split()), "calls": self.calls})

class Critical(CountWords):
    name = "critical_words"
    level = Level.CRITICAL

class Reader(BaseTool):
    name = "read_words"
    description = "Count the words of a file."
    parameters_schema = {"type": "object", "properties": {"path": {"type": "string"}}}

    def execute(self, path="/etc/passwd"):
        return "read " + path

class Lister(BaseTool):
    name = "list_data"
    description = "List files."

    def execute(self):
        return {"files": [{"path": "/data/a.txt"}, {"path": "../b.txt"}], "matches": [{"path": "https://example.com"}]}

def other_name():
    return CountWords()
"""
LANGCHAIN = """
import asyncio
import threading
from langchain_core.tools import StructuredTool, ToolException

def reverse(text: str, times: int = 1) -> dict:
    '''Reverse a text.'''
    if text == "private":
        raise ValueError("the password is 1234")
    if text == "too long":
        raise ToolException("Only short texts can be reversed.")
    return {"text": text[::-1] * times, "thread": threading.current_thread().name}

async def reverse_later(text: str) -> str:
    '''Reverse a text.'''
    await asyncio.sleep(0)
    return text[::-1]

reverse_text = StructuredTool.from_function(reverse)
later = StructuredTool.from_function(coroutine=reverse_later)
"""


def package(folder: Path, name: str, source: str, **entry_points: str) -> None:
    """Install a package into a folder."""
    (folder / f"{name}-1.2.dist-info").mkdir(parents=True)
    (folder / f"{name}.py").write_text(source)
    (folder / f"{name}-1.2.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    lines = "\n".join(f"{point} = {name}:{value}" for point, value in entry_points.items())
    (folder / f"{name}-1.2.dist-info/entry_points.txt").write_text(f"[artel.tools]\n{lines}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    for name in ("artel_words", "artel_broken", "artel_chain", "artel_more_words"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


@pytest.mark.req("AGT-02.12")
async def test_tool_of_another_package_is_used_if_the_file_enables_it(tmp_path: Path, site: Path) -> None:
    package(site, "artel_words", WORDS, count_words="CountWords", critical_words="Critical")
    package(site, "artel_broken", "raise RuntimeError('no license')", broken="Tool")
    shared = shared_tools(tmp_path, agent_file("count_words", "critical_words"))
    await shared.open()

    results = [await call(shared, ANN, "count_words", text="one two") for _ in range(2)]
    invalid = await call(shared, ANN, "count_words", text=3)

    assert [result.data for result in results] == [{"words": 2, "calls": 1}] * 2  # a new one for each task
    assert "3 is not of type 'string'" in str(invalid.error)
    assert "artel_broken" not in sys.modules  # not enabled, so not loaded
    assert shared.plugins()["count_words"]().level is Level.RESTRICTED
    with pytest.raises(NeedsApproval):
        await call(shared, ANN, "critical_words", text="one two")


@pytest.mark.req("AGT-02.12")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "broken",
            r"broken of the package artel_broken 1.2 can't be used \(entry point 'artel_broken:Tool'\).*no license",
        ),
        ("no_tool", r"no_tool of the package artel_words 1.2 .*str is neither a tool nor a LangChain tool"),
        ("wrong_name", r"wrong_name of the package artel_words 1.2 .*its tool is named 'count_words'"),
        ("twice", r"The tool twice is in several packages: artel_more_words 1.2 and artel_words 1.2"),
        ("not_installed", r"There is no tool not_installed. Install the package"),
    ],
)
async def test_plugin_that_can_not_be_used_is_named(tmp_path: Path, site: Path, name: str, problem: str) -> None:
    package(site, "artel_broken", "raise RuntimeError('no license')", broken="Tool")
    package(site, "artel_words", WORDS, no_tool="__name__", wrong_name="other_name", twice="CountWords")
    package(site, "artel_more_words", WORDS, twice="CountWords")

    with pytest.raises(ConfigurationInvalid, match=problem):
        await shared_tools(tmp_path, agent_file(name)).open()


@pytest.mark.req("AGT-02.6")
async def test_paths_of_a_plugin_are_checked(tmp_path: Path, site: Path) -> None:
    package(site, "artel_words", WORDS, read_words="Reader", count_words="CountWords")
    rules = {"plugins": {"read_words": {"allowed_paths": ["/data/**"]}}}
    shared = shared_tools(tmp_path, agent_file("read_words", security=rules))

    assert (await call(shared, ANN, "read_words", path="/data/a.txt")).data == "read /data/a.txt"
    assert "not a file that you may use" in str((await call(shared, ANN, "read_words", path="/etc/a.txt")).error)
    assert "not a file that you may use" in str((await call(shared, ANN, "read_words", path="/data/.env")).error)
    assert "name a file with `path`" in str((await call(shared, ANN, "read_words")).error)
    without_path = agent_file("count_words", security={"plugins": {"count_words": {"allowed_paths": ["/data/**"]}}})
    with pytest.raises(ConfigurationInvalid, match="the tool has no argument `path`"):
        shared_tools(tmp_path, without_path).plugins()


@pytest.mark.req("AGT-02.3", "AGT-02.12")
async def test_result_of_a_plugin_is_not_filtered_like_a_users_folder(tmp_path: Path, site: Path) -> None:
    package(site, "artel_words", WORDS, list_data="Lister")
    listed = await call(shared_tools(tmp_path, agent_file("list_data")), ANN, "list_data")

    assert listed.data == {
        "files": [{"path": "/data/a.txt"}, {"path": "../b.txt"}],
        "matches": [{"path": "https://example.com"}],
    }


@pytest.mark.req("AGT-02.12")
async def test_nothing_is_loaded_from_the_current_folder(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(site, "artel_words", WORDS, count_words="CountWords")
    monkeypatch.chdir(site)

    with pytest.raises(ConfigurationInvalid, match="There is no tool count_words"):
        await shared_tools(tmp_path, agent_file("count_words")).open()

    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "artel_words.py").write_text("raise SystemExit('imported from the current folder')")
    monkeypatch.chdir(evil)
    monkeypatch.syspath_prepend("")
    with pytest.raises(ConfigurationInvalid, match="artel_words is in the current folder, which is not trusted"):
        await shared_tools(tmp_path, agent_file("count_words")).open()


@pytest.mark.req("AGT-02.10")
async def test_langchain_tool_is_a_tool(tmp_path: Path, site: Path) -> None:
    package(site, "artel_chain", LANGCHAIN, reverse_text="reverse_text", later="later")
    shared = shared_tools(tmp_path, agent_file("reverse_text", "later"))
    await shared.open()
    schemas = {schema.name: schema for schema in node_toolbox(shared, ANN).schemas}

    async def reverse(**arguments: Any) -> ToolResult:
        return await call(shared, ANN, "reverse_text", **arguments)

    done, invalid = await reverse(text="abc", times=2), await reverse(times="many")
    failed, refused = await reverse(text="private"), await reverse(text="too long")
    later = await call(shared, ANN, "later", text="abc")

    assert schemas["reverse_text"].description == "Reverse a text."
    assert schemas["reverse_text"].parameters["required"] == ["text"]
    assert isinstance(done.data, dict)
    assert done.data["text"] == "cbacba"
    assert done.data["thread"] != threading.current_thread().name
    assert "was not called" in str(invalid.error)
    assert failed.error == "reverse_text failed because of an error inside it. Try another way."
    assert refused.error == "reverse_text failed: Only short texts can be reversed."
    assert later.data == "cba"
    assert shared.plugins()["later"]().level is Level.RESTRICTED


@pytest.mark.req("AGT-02.10")
def test_langchain_is_not_imported_without_such_a_tool() -> None:
    code = "import sys, artel.nodes.toolbox; sys.exit('langchain_core' in sys.modules or 'qdrant_edge' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


class Counts(BaseTool):
    name = "count_words"
    parameters_schema = {"type": "object", "properties": {"text": {"type": "string"}}}  # noqa: RUF012

    def execute(self, text: str) -> ToolResult:
        return ToolResult(success=True, data={"words": len(text.split())})


async def test_blocking_calls_that_never_return_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("artel.tools.tool._blocking_calls", threading.BoundedSemaphore(1))
    release, begun = threading.Event(), threading.Event()

    class Hangs(Counts):
        def execute(self, text: str) -> ToolResult:
            begun.set()
            release.wait()
            return super().execute(text)

    hanging = asyncio.create_task(Hangs().call({"text": "x"}))
    await asyncio.to_thread(begun.wait)
    refused = await Hangs().call({"text": "x"})
    release.set()

    assert refused.error == "Too many calls of this kind are running. Try again later."
    assert (await hanging).data == {"words": 1}
    assert (await Hangs().call({"text": "x y"})).data == {"words": 2}


@pytest.mark.parametrize("problem", [SystemExit, asyncio.CancelledError, StopIteration])
async def test_foreign_code_that_exits_only_fails(problem: type[BaseException]) -> None:
    class Exits(Counts):
        def execute(self, text: str) -> ToolResult:
            raise problem(text)

    deadline = time.monotonic() + 20
    result = await Toolbox([Exits()], ["count_words"]).call(ToolCall("1", "count_words", '{"text": "x"}'), deadline)
    assert result.error == "count_words failed because of an error inside it. Try another way."


class Silent:
    def __str__(self) -> str:
        raise ValueError("no text")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.req("AGT-02.3", "AGT-02.10")
@pytest.mark.parametrize(
    ("data", "is_shown"),
    [({1: "a", None: "b"}, True), ({(1, 2): "a"}, False), (nested(5_000), False), ({"a": Silent()}, False)],
    ids=["keys that are no texts", "keys that JSON has not", "very deep", "without a text"],
)
def test_any_result_of_foreign_code_is_a_text_for_the_model(data: Any, is_shown: bool) -> None:
    text = ToolResult(success=True, data=data).text_for_model()

    assert json.loads(text)["success"] is is_shown
    assert is_shown or "its result can't be written as JSON" in text
