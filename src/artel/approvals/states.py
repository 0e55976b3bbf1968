"""Approvals as the API shows them, with the names of what they belong to."""

from collections.abc import Sequence

from sqlalchemy import Connection

from artel.agents.repository import AgentRepository
from artel.approvals.approval import Approval
from artel.approvals.repository import ApprovalRepository
from artel.auth.principal import Principal
from artel.contract.approvals import ApprovalState
from artel.contract.http import Page, PageRequest
from artel.projects.repository import ProjectRepository
from artel.sessions.repository import SessionRepository


def approval_states(connection: Connection, principal: Principal, found: Sequence[Approval]) -> list[ApprovalState]:
    """Return approvals with names; a name is None if what it names was deleted."""
    projects = ProjectRepository(connection, principal).names({approval.project_id for approval in found})
    titles = SessionRepository(connection, principal).titles({approval.session_id for approval in found})
    agent_ids = {approval.agent_id for approval in found if approval.agent_id is not None}
    agents = AgentRepository(connection, principal).names_of(agent_ids)
    return [
        ApprovalState.of(
            approval,
            project_name=projects.get(approval.project_id),
            session_title=titles.get(approval.session_id),
            agent=agents.get(approval.agent_id or 0),
            details=approval.details.shown(),
        )
        for approval in found
    ]


def approval_state(connection: Connection, principal: Principal, approval_id: str) -> ApprovalState:
    """Return one approval with names."""
    return approval_states(connection, principal, [ApprovalRepository(connection, principal).get(approval_id)])[0]


def page_of_states(
    connection: Connection, principal: Principal, status: str | None, session_id: str | None, paging: PageRequest
) -> Page[ApprovalState]:
    """Return a page of approvals of all sessions or one, with names, newest first."""
    if session_id is not None:
        SessionRepository(connection, principal).get(session_id)  # raises if it is another user's
    found, total = ApprovalRepository(connection, principal).page(status, session_id, paging)
    return paging.page(approval_states(connection, principal, found), total)
