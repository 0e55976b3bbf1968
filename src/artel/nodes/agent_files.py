"""Loads agent files; a mistake is named by file, line and key, with what is allowed there."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from artel.contract.agent_file import (
    BUILTIN_TOOLS,
    MAX_FILE_BYTES,
    NODE_NAME,
    AgentDocument,
    AgentFile,
)
from artel.errors import ArtelError, Kind
from artel.nodes.kinds import KINDS, kind_text, shipped_capability, shipped_version
from artel.nodes.located_yaml import Loc, LocatedYaml, YamlUnreadable, read_yaml
from artel.nodes.yaml_mistakes import (
    MAX_SHOWN,
    AgentFileInvalid,
    FileMistake,
    explain,
    instead,
    key_of,
    mistakes_in,
    unreadable,
)
from artel.settings import config_folder
from artel.text import shorten

MAX_FILES = 100
SUFFIXES = (".yaml", ".yml")
TOOL_GROUP = "artel.tools"  # entry points of packages that add tools

_TOOL_LISTS: tuple[Loc, ...] = (("agent", "tools", "enabled"), ("agent", "tools", "security", "allowed_tools"))
_PLUGIN_RULES: Loc = ("agent", "tools", "security", "plugins")
_UNREADABLE = {
    errno.ELOOP: "is a symbolic link that leads to itself",
    errno.ENXIO: "is not a regular file",
    errno.EACCES: "can't be read: permission denied",
    errno.EPERM: "can't be read: permission denied",
    errno.EFBIG: f"is larger than {MAX_FILE_BYTES:,} bytes, which is the most",
}

Found = tuple[Loc, str]  # a mistake: its path in the file, and what is wrong


class AgentFileMissing(ArtelError, kind=Kind.NOT_FOUND, code="agent_file_missing"):
    """There is no such agent file."""


class UnknownKind(ArtelError, kind=Kind.INVALID, code="unknown_kind"):
    """No agent of this kind comes with Artel."""


def load_agent_folder(path: Path) -> list[AgentFile]:
    """Return the agents of all YAML files directly in a folder, by file name."""
    return load_agent_files(agent_files_in(path))


def load_agent_files(paths: Sequence[Path]) -> list[AgentFile]:
    """Return the agents of files; raise AgentFileInvalid with the mistakes of all of them, or AgentFileMissing."""
    loaded, mistakes = check_agent_files(paths)
    if mistakes:
        raise AgentFileInvalid(mistakes)
    return [file for _, file in loaded]


def check_agent_files(paths: Sequence[Path]) -> tuple[list[tuple[Path, AgentFile]], list[FileMistake]]:
    """Return the agents of the valid files, and the mistakes of the others."""
    loaded: list[tuple[Path, AgentFile]] = []
    mistakes: list[FileMistake] = []
    file_of: dict[str, Path] = {}
    for path in dict.fromkeys(paths):
        file, document, found = _load(path)
        mistakes += found
        if file is None:
            continue
        address = file.name.replace(".", "_")  # the word of routing keys
        if address in file_of:
            text = f"{file_of[address]} has the same name, or one with the same address ({address})"
            mistakes.append(FileMistake(str(path), document.line(("agent", "name")), "agent.name", text))
        else:
            file_of[address] = path
            loaded.append((path, file))
    return loaded, mistakes


def parse_agent_file(text: str, source: str) -> AgentFile:
    """Return the agent of a YAML text; `source` is what its mistakes name as the file."""
    file, _, mistakes = _parse(text, source)
    if file is None:
        raise AgentFileInvalid(mistakes)
    return file


def kind_file(kind: str, name: str | None = None, *, model: str | None = None) -> AgentFile:
    """Return an agent that comes with Artel, maybe under another name and with another model."""
    if kind not in KINDS:
        raise UnknownKind(f"There is no kind {shorten(kind, MAX_SHOWN)!r}{instead(kind, KINDS)}")
    file = parse_agent_file(kind_text(kind), f"{kind}.yaml")
    if name is None and model is None:
        return file
    changed = file.model_dump()
    changed["name"] = file.name if name is None else name
    if model is not None:
        changed["brain"].update(provider="openai", model=model, fallback={})  # a model with a / names its provider
    try:
        return AgentFile.model_validate(changed)
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False)
        raise AgentFileInvalid(
            [FileMistake(kind, 0, key_of(error["loc"]), explain(error, AgentFile)) for error in errors]
        ) from None


def agents_folder() -> Path:
    """Return the folder of agent files in the configuration."""
    return config_folder() / "agents"


def find_agent_file(name_or_path: str) -> Path:
    """Return the file or folder that a path names, or the file that is configured for the name of an agent.

    Only what looks like a path (a separator, or the suffix .yaml) is looked up from the current folder: agents and
    cloned repositories write there.
    """
    path = agent_path(name_or_path)
    if not os.path.lexists(path):
        elsewhere = "" if is_path(name_or_path) else f" (a file elsewhere is named by its path: ./{name_or_path}.yaml)"
        raise AgentFileMissing(f"There is no agent file {path}. Make one: artel node init {name_or_path}{elsewhere}")
    return path


def find_agent_files(name_or_path: str) -> list[Path]:
    """Return the agent file that a name or path stands for, or all those of a folder."""
    path = find_agent_file(name_or_path)
    return agent_files_in(path) if path.is_dir() else [path]


def agent_files_in(folder: Path) -> list[Path]:
    """Return the YAML files directly in a folder; raise AgentFileMissing if there are none."""
    try:
        names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(SUFFIXES))
    except OSError as error:
        raise AgentFileMissing(f"{folder} can't be read as a folder: {error.strerror}") from None
    names = [name for name in names if not name.startswith(".")]
    if not names:
        raise AgentFileMissing(f"{folder} has no agent files (*.yaml). Make one: artel node init")
    if len(names) > MAX_FILES:
        text = f"has {len(names)} agent files; {MAX_FILES} is the most for one folder"
        raise AgentFileInvalid([FileMistake(str(folder), 0, "", text)])
    return [folder / name for name in names]


def agent_path(name_or_path: str) -> Path:
    """Return where the file of an agent is or would be."""
    if is_path(name_or_path):
        return Path(name_or_path).expanduser()
    if not NODE_NAME.fullmatch(name_or_path):
        text = shorten(name_or_path, MAX_SHOWN)
        raise AgentFileMissing(f"{text!r} is neither the name of an agent nor the path of a file.")
    return agents_folder() / f"{name_or_path}.yaml"


def is_path(name_or_path: str) -> bool:
    """Return whether the user typed a path, not the name of a configured agent."""
    return "/" in name_or_path or name_or_path.endswith(SUFFIXES) or name_or_path in (".", "..", "~")


def _load(path: Path) -> tuple[AgentFile | None, LocatedYaml, list[FileMistake]]:
    try:
        data = _read(path)
    except FileNotFoundError:
        raise AgentFileMissing(f"There is no file {path}.") from None
    except OSError as error:
        reason = _UNREADABLE.get(error.errno or 0) or f"can't be read: {error.strerror}"
        return None, LocatedYaml(), [FileMistake(str(path), 0, "", reason)]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        mistake = FileMistake(str(path), data.count(b"\n", 0, error.start) + 1, "", "is not UTF-8 text")
        return None, LocatedYaml(), [mistake]
    return _parse(text, str(path))


def _read(path: Path) -> bytes:
    """Return a regular file's bytes; a device, a pipe, a folder or a large file is refused without waiting.

    Links are followed, because Kubernetes mounts files as links: the operator names the files, and nobody else.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENXIO, "not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, "too large")
    return data


def _parse(text: str, source: str) -> tuple[AgentFile | None, LocatedYaml, list[FileMistake]]:
    """Return the agent, None if there are mistakes; where its keys are; and the mistakes by line."""
    try:
        document = read_yaml(text)
    except YamlUnreadable as failure:
        return None, LocatedYaml(), [unreadable(failure, source)]
    file, found = _validate(document.value)
    mistakes = mistakes_in(document, source, found)
    return (None if mistakes else file), document, mistakes


def _validate(value: Any) -> tuple[AgentFile | None, dict[Loc, str]]:
    """Return the agent of a document, and its mistakes by path."""
    if not isinstance(value, dict):
        return None, {(): "must begin with the key `agent:`; artel node init writes an example"}
    value, wrong_versions = _with_shipped_capabilities(value)
    found = {**dict(_unknown_tools(value)), **dict(wrong_versions)}
    try:
        return AgentDocument.model_validate(value).agent, found
    except ValidationError as invalid:
        for error in invalid.errors(include_url=False):
            found.setdefault(error["loc"], explain(error, AgentDocument))
    return None, found


def _with_shipped_capabilities(value: dict[str, Any]) -> tuple[dict[str, Any], list[Found]]:
    """Return the document, where shipped capabilities without schemas have their definition; and wrong versions."""
    capabilities = _at(value, ("agent", "capabilities"))
    if not isinstance(capabilities, list):
        return value, []
    mistakes: list[Found] = []
    filled = []
    for number, given in enumerate(capabilities):
        name = given.get("name") if isinstance(given, dict) else None
        version = shipped_version(name) if isinstance(name, str) else None
        if version is None or {"input_schema", "output_schema"} & given.keys():
            filled.append(given)
            continue
        filled.append({**shipped_capability(str(name)), **given})
        if isinstance(given.get("version"), str) and given["version"] != version:
            text = f"{name} comes with version {version} only: give another version its own input_schema"
            mistakes.append((("agent", "capabilities", number, "version"), text))
    return {**value, "agent": {**value["agent"], "capabilities": filled}}, mistakes


def _unknown_tools(value: Any) -> Iterator[Found]:
    """Yield the names of tools that are neither built in nor installed, and rules at the wrong key."""
    listed = list(_named_tools(value))
    for path, name in listed:
        if path[:-1] == _PLUGIN_RULES and name in BUILTIN_TOOLS:
            yield path, f"is built in: its rules belong under tools.security.{name}"
    if any(name not in BUILTIN_TOOLS for _, name in listed):  # looked up only then, because that takes a while
        tools = BUILTIN_TOOLS | entry_points(group=TOOL_GROUP).names
        advice = f"a package adds tools as entry points of the group {TOOL_GROUP}"
        for path, name in listed:
            if name not in tools:
                yield path, f"{shorten(name, MAX_SHOWN)} is not a tool{instead(name, tools)} ({advice})"


def _named_tools(value: Any) -> Iterator[Found]:
    for loc in _TOOL_LISTS:
        names = _at(value, loc)
        for number, name in enumerate(names if isinstance(names, list) else ()):
            if isinstance(name, str):
                yield (*loc, number), name
    rules = _at(value, _PLUGIN_RULES)
    yield from (((*_PLUGIN_RULES, name), name) for name in (rules if isinstance(rules, dict) else ()))


def _at(value: Any, loc: Loc) -> Any:
    for step in loc:
        value = value.get(step) if isinstance(value, dict) else None
    return value
