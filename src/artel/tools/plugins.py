"""Tools of other packages, found by the entry point group `artel.tools` and loaded by name only.

    [project.entry-points."artel.tools"]
    count_words = "my_package.tools:CountWords"

The value is a subclass of Tool that is made without arguments, a function that returns a tool or a LangChain tool, or a
LangChain tool itself. Installing a package is the operator's decision; what it does is limited by its level and by the
rules of the agent's file, but it runs in the process of the node.
"""

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from artel.errors import ConfigurationInvalid
from artel.logs import get_logger
from artel.tools.langchain_tool import LangChainTool, is_langchain
from artel.tools.tool import Tool

GROUP = "artel.tools"

MakeTool = Callable[[], Tool]

log = get_logger(__name__)


def load_plugin(name: str) -> MakeTool:
    """Return what makes a tool of another package; raise ConfigurationInvalid if there is none or it can't be loaded.

    It makes a new tool for each task, so that tenants share no state.
    """
    found = _entry_points(name)
    if not found:
        raise ConfigurationInvalid(
            f"There is no tool {name}. Install the package that has it (an entry point {name!r} in the group "
            f"{GROUP!r}) on this machine, or remove it from tools.enabled."
        )
    if len(found) > 1:
        packages = " and ".join(sorted(_package(point) for point in found))
        raise ConfigurationInvalid(f"The tool {name} is in several packages: {packages}. Remove all but one.")
    [point] = found
    try:
        _require_elsewhere(point)
        loaded = point.load()
        first = _made(name, loaded)
    except Exception as failure:  # of foreign code
        log.warning("plugin_not_loaded", tool=name, package=_package(point), exc_info=True)
        raise _unusable(point, f"{type(failure).__name__}: {str(failure)[:500]}") from failure
    if first.name != name:
        raise _unusable(point, f"its tool is named {first.name!r}")
    log.info("plugin_loaded", tool=name, package=_package(point), level=str(first.level))
    return lambda: _made(name, loaded)


def _made(name: str, loaded: Any) -> Tool:
    """Return a tool of a loaded entry point."""
    made = loaded() if isinstance(loaded, type) or (callable(loaded) and not is_langchain(loaded)) else loaded
    if is_langchain(made):
        return LangChainTool(made, name)
    if not isinstance(made, Tool):
        raise TypeError(f"{type(made).__name__} is neither a tool nor a LangChain tool")
    return made


def _entry_points(name: str) -> list[EntryPoint]:
    """Return the entry points of a name, without those of packages in the current folder, where agents may write."""
    here = Path.cwd()
    path = [entry for entry in sys.path if entry and Path(entry).resolve() != here]
    found: dict[str, EntryPoint] = {}
    for distribution in distributions(path=path):
        for point in distribution.entry_points.select(group=GROUP, name=name):
            package = str(distribution.metadata["Name"])
            found.setdefault(package, point)  # the first on the path is the one that is imported
    return list(found.values())


def _require_elsewhere(point: EntryPoint) -> None:
    """Raise ImportError if a module would be imported from the current folder."""
    spec = find_spec(point.module.partition(".")[0])
    found = [] if spec is None else list(spec.submodule_search_locations or ([spec.origin] if spec.origin else []))
    if Path.cwd() in [Path(location).resolve().parent for location in found]:
        raise ImportError(f"{point.module} is in the current folder, which is not trusted: start the node elsewhere")


def _package(point: EntryPoint) -> str:
    return f"{point.dist.metadata['Name']} {point.dist.version}" if point.dist else "unknown"


def _unusable(point: EntryPoint, problem: str) -> ConfigurationInvalid:
    return ConfigurationInvalid(
        f"The tool {point.name} of the package {_package(point)} can't be used (entry point {point.value!r}): {problem}"
    )
