"""Endpoints for administrators to see and control nodes."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, status
from pydantic import StringConstraints

from artel.api.dependencies import Administrator, Paging, Services
from artel.api.problems import documented
from artel.auth.audit_log import Action, record
from artel.contract.envelope import Control
from artel.contract.http import Page
from artel.contract.nodes import Node, NodeControl, NodeControlSent, NodeDetails
from artel.contract.passport import NodeState
from artel.logs import get_logger
from artel.registry.selectors import MAX_CHARACTERS, parse_selector
from artel.registry.view import details_of, view_of

NodeName = Annotated[str, Path(max_length=255, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", examples=["agent.writer.001"])]
Word = Annotated[str, StringConstraints(max_length=255, pattern=r"^[A-Za-z0-9_.-]+$")]

router = APIRouter(prefix="/nodes", tags=["nodes"], responses=documented(401, 403, 422, 503))
log = get_logger(__name__)


@router.get("")
async def list_nodes(
    _administrator: Administrator,
    services: Services,
    paging: Paging,
    node_type: Annotated[Word | None, Query(alias="type", description="Only nodes of this type.")] = None,
    capability: Annotated[Word | None, Query(description="Only nodes with this capability.")] = None,
    selector: Annotated[
        str,
        Query(
            max_length=MAX_CHARACTERS,
            description="Only nodes whose labels meet the conditions, as in Kubernetes.",
            examples=["env in (test, prod), gpu, !beta, cores > 4"],
        ),
    ] = "",
    state: Annotated[NodeState | None, Query(description="Only nodes in this state.")] = None,
) -> Page[Node]:
    """List the nodes by name. Nodes that were not heard of for 90 seconds are not listed."""
    wanted = parse_selector(selector)
    found = await services.nodes.nodes(wanted, node_type=node_type, capability=capability, state=state)
    items = [view_of(node) for node in paging.cut(found)]
    return paging.page(items, len(found))


@router.get("/{name}", responses=documented(404))
async def get_node(name: NodeName, _administrator: Administrator, services: Services) -> NodeDetails:
    """Return a node with its passport."""
    return details_of(await services.nodes.get(name))


@router.post("/{name}/control", status_code=status.HTTP_202_ACCEPTED, responses=documented(400, 404, 413))
async def control_node(
    name: NodeName, body: NodeControl, administrator: Administrator, services: Services
) -> NodeControlSent:
    """Send a signal to a node. It is carried out during a task, too."""
    control = Control(control_type=body.control_type, reason=body.reason, parameters=body.parameters)
    await services.nodes.control(name, control)
    detail = f"{body.control_type}: {body.reason}" if body.reason else body.control_type
    await services.database.run(record, Action.NODE_CONTROLLED, administrator, target=f"node {name}", detail=detail)
    log.info("node_controlled", node=name, control_type=body.control_type, by_user_id=administrator.user_id)
    return NodeControlSent(name=name, control_type=body.control_type)
