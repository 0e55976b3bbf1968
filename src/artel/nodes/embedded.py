"""Nodes inside the server: those that a process of their own would run, with the server's bus and data folder."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from artel.brain.router import BrainRouter
from artel.nodes.agent_files import load_agent_folder
from artel.nodes.connection import NodeConnection
from artel.nodes.node import AgentNode
from artel.settings import Settings

GRACE_SECONDS = 2.0  # the server has waited for running turns before


class EmbeddedNodes:
    """The nodes of all agent files of a folder; they start and stop together."""

    def __init__(self, nodes: list[AgentNode], brain: BrainRouter) -> None:
        self.nodes = nodes
        self._brain = brain

    @classmethod
    async def start(cls, folder: Path, connect: Callable[[str], NodeConnection], settings: Settings) -> "EmbeddedNodes":
        """Start the nodes of a folder; raise AgentFileInvalid, AgentFileMissing, or why one of them can't start.

        `connect` returns the connection of the node with a name.
        """
        files = await asyncio.to_thread(load_agent_folder, folder)
        brain = BrainRouter(os.environ)  # without rules for models: the operator chose those in the files
        embedded = cls([], brain)
        try:
            for file in files:
                is_demo = brain.is_demo(file.brain.model_name)
                node = AgentNode(file, connect(file.name), brain, settings, is_embedded=True, is_demo=is_demo)
                await node.start()
                embedded.nodes.append(node)
        except BaseException:
            await embedded.close()
            raise
        return embedded

    async def close(self) -> None:
        """Stop the nodes; what they have not done goes back to their queues."""
        stops = (node.stop("the server stops", grace_seconds=GRACE_SECONDS) for node in self.nodes)
        await asyncio.gather(*stops, return_exceptions=True)
        await self._brain.close()
