"""The agents that come with Artel, as agent files: writer, critic, researcher, developer; and a template of a file."""

import copy
import functools
from pathlib import Path
from typing import Any

from artel.nodes.located_yaml import read_yaml

KINDS = ("writer", "critic", "researcher", "developer")
TEMPLATE = "template"
# Which of them defines a capability; so that files may use it by its name.
DEFINED_BY = {
    "write_article": "writer",
    "improve_text": "writer",
    "generate_outline": "writer",
    "review_text": "critic",
    "score_quality": "critic",
    "research_topic": "researcher",
    "summarize": "researcher",
    "write_code": "developer",
    "review_code": "developer",
}


def kind_text(kind: str) -> str:
    """Return the file of a kind, or the template."""
    return Path(__file__).with_name(f"{kind}.yaml").read_text(encoding="utf-8")


def shipped_version(capability: str) -> str | None:
    """Return the version of a capability that comes with Artel, None for any other."""
    return str(_definitions(DEFINED_BY[capability])[capability]["version"]) if capability in DEFINED_BY else None


def shipped_capability(name: str) -> dict[str, Any]:
    """Return the definition of a capability that comes with Artel, as in its file."""
    return copy.deepcopy(_definitions(DEFINED_BY[name])[name])


@functools.cache
def _definitions(kind: str) -> dict[str, dict[str, Any]]:
    capabilities = read_yaml(kind_text(kind)).value["agent"]["capabilities"]
    return {capability["name"]: capability for capability in capabilities}
