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


def conflict_lines(name: str) -> list[str]:
    """Return the lines of seed 004, 14.6.3."""
    return [
        f"[{name}] SINGLETON CONFLICT: Agent '{name}' already running!",
        f"[{name}] Another instance holds exclusive queue 'singleton.{name}'",
        f"[{name}] Action: Stop the existing instance or use a different agent name",
        f"[{name}] Shutting down to prevent duplicate processing",
    ]
