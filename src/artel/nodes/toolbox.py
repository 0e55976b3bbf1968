"""The tools of a node: those of its agent's file, under the rules of that file, for one task of one tenant."""

import asyncio
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from artel.contract.agent_file import BUILTIN_TOOLS, AgentFile
from artel.contract.project_settings import PolicySettings, ToolRule
from artel.errors import ConfigurationInvalid
from artel.logs import get_logger
from artel.nodes.long_term_memory import LongTermMemory, NodeRecall
from artel.nodes.task_scope import TaskScope
from artel.nodes.tool_audit import ToolAudit
from artel.paths.errors import PathError
from artel.settings import Settings
from artel.tools.api_call import ApiCall, api_client
from artel.tools.consent import Consent
from artel.tools.node_files import FileRead, FileRules, FileWrite, NodeFiles
from artel.tools.plugins import MakeTool, load_plugin
from artel.tools.policy import Level, NotCalled, Policy, RateLimit, ToolCalls
from artel.tools.programs import CodeExecute, Shell
from artel.tools.recall import MemoryRead, MemoryWrite
from artel.tools.sandbox import Sandbox
from artel.tools.tool import Tool
from artel.tools.toolbox import Toolbox
from artel.tools.web import WebTools

MEMORY_TOOLS = frozenset({MemoryRead.name, MemoryWrite.name})
FILE_TOOLS = frozenset({FileRead.name, FileWrite.name})

log = get_logger(__name__)


def node_folder(settings: Settings, name: str) -> Path:
    """Return the folder of a node's own data; names of nodes are valid names of folders."""
    return settings.data_dir / "nodes" / name


class SharedTools:
    """What the tools of one node share between its tasks: memory, files, sandbox, plugins, audit log, limits."""

    def __init__(self, file: AgentFile, settings: Settings, folder: Path | None = None) -> None:
        """Raise ConfigurationInvalid if a tool of the file can't be had."""
        self.file = file
        self.settings = settings
        self.folder = folder or node_folder(settings, file.name)
        self.audit = ToolAudit(file.name, self.folder)
        self.sandbox = Sandbox(self.folder / "work")
        long_term = file.memory.long_term
        self.memory = LongTermMemory(file.name, long_term, settings, self.folder) if long_term.enabled else None
        if self.memory is None and (without := sorted(MEMORY_TOOLS & file.tools.usable)):
            log.warning("node_has_no_memory", node=file.name, tools=without, set="memory.long_term.enabled: true")
        tools = file.tools.security
        self.web = WebTools(settings.web_rules, tools.web_search.searxng_url or settings.searxng_url)
        self.api_client = api_client(tools.api_call)
        self._plugins: dict[str, MakeTool] = {}
        self._calls: ToolCalls = {}

    async def open(self) -> None:
        """Load the tools of other packages; raise ConfigurationInvalid if one can't be used."""
        try:
            await asyncio.to_thread(self.plugins)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the memory and the connections."""
        await self.web.close()
        await self.api_client.close()
        if self.memory is not None:
            await self.memory.close()

    async def end(self, scope: TaskScope) -> None:
        """Remove what a task that is over has left in the sandbox."""
        await self.sandbox.forget(_task_name(scope))

    async def forget(self, tenant: str) -> None:
        """Delete the memories and files of a tenant, also those of its tasks in the sandbox."""
        if self.memory is not None:
            await self.memory.of(tenant).forget()
        folder = self.folder / "files" / tenant
        if folder.exists():
            await asyncio.to_thread(shutil.rmtree, folder)
        await self.sandbox.forget_all(tenant)

    def plugins(self) -> Mapping[str, MakeTool]:
        """Return the tools of other packages that the file enables, by name."""
        for name in sorted(self.file.tools.usable - BUILTIN_TOOLS - self._plugins.keys()):
            make = load_plugin(name)
            rule = self.file.tools.security.rule(name)
            if (rule.allowed_paths or rule.denied_paths) and "path" not in make().parameters_schema.get(
                "properties", {}
            ):
                raise ConfigurationInvalid(
                    f"tools.security.plugins.{name} has paths, but the tool has no argument `path`."
                )
            self._plugins[name] = make
        return self._plugins

    def rate_limit(self, scope: TaskScope) -> RateLimit:
        """Return the limit of calls per minute, which all tasks of a tenant share."""
        return RateLimit(self.settings.max_api_calls_per_minute, calls=self._calls, key=scope.key)

    def file_rules(self, tool: str) -> FileRules:
        """Return which files a tool may use."""
        return FileRules(self.file.tools.security.rule(tool), self.settings.data_dir)

    def files(self, tool: str, scope: TaskScope) -> NodeFiles:
        """Return the files of a tool in one task."""
        folder = self.folder / "files" / scope.tenant

        def own_folder() -> Path:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return folder

        return NodeFiles(self.file_rules(tool), own_folder)

    def recall(self, scope: TaskScope) -> NodeRecall:
        """Return the memory of the task's tenant."""
        if self.memory is None:
            raise ConfigurationInvalid("The agent has no memory: set memory.long_term.enabled to true in its file.")
        return NodeRecall(self.memory.of(scope.tenant))


@dataclass(frozen=True, slots=True)
class NodePolicy(Policy):
    """The policy of an agent's file; tools of the worker space are under the policy of that."""

    APPROVAL_REASON: ClassVar[str] = "The agent's file asks before each call."

    files: Mapping[str, FileRules] = field(default_factory=dict)  # by tool
    space_tools: frozenset[str] = frozenset()

    def check(self, tool: str, level: Level, arguments: Mapping[str, Any], parameters: Collection[str] = ()) -> None:  # noqa: ARG002
        """Raise NotCalled if the call is not allowed."""
        if tool in self.space_tools:
            return
        if tool in self.files:
            path = arguments.get("path")
            if not isinstance(path, str):  # what the tool would take instead is not known
                raise NotCalled(f"{tool} was not called: name a file with `path`, as a text.")
            try:
                self.files[tool].locate(path)
            except PathError as denied:
                raise NotCalled(f"{tool} was not called: {denied.message}") from None
        self.rate_limit.take()

    def filtered(self, tool: str, data: Any) -> Any:  # noqa: ARG002
        """Return a tool's result as it is: its paths are not those of a user's folder."""
        return data


def node_tools(shared: SharedTools, scope: TaskScope) -> list[Tool]:
    """Return the tools that the file enables, allows and does not switch off, for one task."""
    usable = shared.file.tools.usable - (MEMORY_TOOLS if shared.memory is None else frozenset())
    web = [tool for tool in shared.web.of(scope.key[0]) if tool.name in usable]
    others = [make(shared, scope) for name, make in _TOOLS.items() if name in usable]
    return [*web, *others, *(make() for make in shared.plugins().values())]


def node_policy(shared: SharedTools, scope: TaskScope, tools: Iterable[Tool]) -> NodePolicy:
    """Return the policy for a node's own tools in one task: approvals, paths, and the limit per minute."""
    rules: dict[str, ToolRule] = {}
    files: dict[str, FileRules] = {}
    for tool in tools:
        rules[tool.name] = ToolRule(requires_approval=shared.file.tools.needs_approval(tool.name))
        security = shared.file.tools.security.rule(tool.name)
        if tool.name in FILE_TOOLS or security.allowed_paths or security.denied_paths:
            files[tool.name] = shared.file_rules(tool.name)
    return NodePolicy(PolicySettings(tools=rules), shared.rate_limit(scope), files)


def node_toolbox(
    shared: SharedTools, scope: TaskScope, consent: Consent | None = None, space_tools: Sequence[Tool] = ()
) -> Toolbox:
    """Return the toolbox of one task: the node's tools and those of the worker space, which win on a name clash.

    `consent` has the decisions about calls that a person was asked for.
    """
    foreign = frozenset(tool.name for tool in space_tools)
    own = [tool for tool in node_tools(shared, scope) if tool.name not in foreign]
    tools = [*own, *space_tools]
    policy = replace(node_policy(shared, scope, own), space_tools=foreign)
    return Toolbox(tools, [tool.name for tool in tools], policy, consent, shared.audit.of(scope))


def _task_name(scope: TaskScope) -> str:
    return f"{scope.tenant}/{scope.task_id}"


_TOOLS: dict[str, Callable[[SharedTools, TaskScope], Tool]] = {
    MemoryRead.name: lambda shared, scope: MemoryRead(shared.recall(scope)),
    MemoryWrite.name: lambda shared, scope: MemoryWrite(shared.recall(scope)),
    FileRead.name: lambda shared, scope: FileRead(shared.files(FileRead.name, scope)),
    FileWrite.name: lambda shared, scope: FileWrite(shared.files(FileWrite.name, scope)),
    ApiCall.name: lambda shared, scope: ApiCall(shared.file.tools.security.api_call, shared.api_client, scope.key[0]),
    CodeExecute.name: lambda shared, scope: CodeExecute(
        shared.sandbox, _task_name(scope), shared.file.tools.security.code_execute
    ),
    Shell.name: lambda shared, scope: Shell(shared.sandbox, _task_name(scope), shared.file.tools.security.shell),
}
