"""Expiry of approvals."""

from datetime import UTC, datetime, timedelta

from artel.approvals.transactions import WARN_SECONDS, expire, warn
from artel.auth.principal import Principal
from artel.errors import ApprovalDecided, ApprovalNotFound, ArtelError
from artel.logs import get_logger
from artel.spaces import leases
from artel.spaces.services import SpaceServices

log = get_logger(__name__)


class ApprovalClock:
    """Warns a minute before an approval expires, and resumes the run when it has expired."""

    def __init__(self, services: SpaceServices) -> None:
        self._services = services

    async def check(self) -> None:
        """Process the approvals that have expired or will soon."""
        now = datetime.now(UTC)
        soon = now + timedelta(seconds=WARN_SECONDS)
        for due in await self._services.database.read(leases.due_approvals, now, soon):
            database = self._services.database.of(Principal(due.user_id))
            try:
                if due.expires_at <= now:
                    await database.run(expire, due.approval_id)
                    log.info("approval_expired", approval_id=due.approval_id, session_id=due.session_id)
                else:
                    await database.run(warn, due.approval_id)
            except (ApprovalDecided, ApprovalNotFound):  # decided in the meantime
                continue
            except ArtelError as failure:  # one failure must not block the others
                log.warning("approval_not_ended", approval_id=due.approval_id, reason=failure.detail)
