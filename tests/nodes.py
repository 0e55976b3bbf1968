"""Agents' files for tests of nodes."""

from typing import Any
from uuid import uuid4

from artel.contract.agent_file import AgentFile


def agent_file(name: str | None = None, **sections: Any) -> AgentFile:
    """Return the file of a writer, with sections of its own and by default a unique name."""
    return AgentFile.model_validate(
        {
            "name": name or f"agent.writer.t{uuid4().hex[:12]}",
            "type": "writer",
            "brain": {"model": "scripted", "system_prompt": "You write."},
            "capabilities": [{"name": "write_article"}],
            **sections,
        }
    )
