"""Nodes as administrators see them."""

from typing import Any

from artel.contract.nodes import Node, NodeDetails, NodeTask
from artel.registry.node import RegisteredNode


def view_of(node: RegisteredNode) -> Node:
    """Return a node for a list."""
    return Node(**_fields(node))


def details_of(node: RegisteredNode) -> NodeDetails:
    """Return a node with its passport."""
    return NodeDetails(**_fields(node), passport=node.passport.dump())


def _fields(node: RegisteredNode) -> dict[str, Any]:
    metadata, spec, status = node.passport.metadata, node.passport.spec, node.passport.status
    return {
        "name": node.name,
        "uid": node.uid,
        "epoch": node.epoch,
        "node_type": node.node_type,
        "display_name": spec.display_name or node.name,
        "description": spec.description,
        "version": metadata.version,
        "model": spec.model,
        "state": node.state.value,
        "phase": status.phase,
        "takes_tasks": node.takes_tasks,
        "heartbeat_at": node.heartbeat_at,
        "heartbeat_age": round(node.heartbeat_age, 3),
        "registered_at": node.registered_at,
        "labels": metadata.labels,
        "capabilities": sorted(node.capabilities),
        "tools": list(spec.tools),
        "current_tasks": [NodeTask.of(task) for task in status.current_tasks],
        "max_concurrent_tasks": spec.max_concurrent_tasks,
        "load": round(node.load, 3),
        "tasks_processed": status.total_tasks_processed,
        "uptime": status.uptime,
        "metrics": status.metrics,
    }
