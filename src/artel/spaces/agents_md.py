"""AGENTS.md of the connected folder: passed to agents as quoted data, never trusted as instructions."""

import time

from artel.agent_loop import prompts
from artel.auth.principal import Principal
from artel.brain.brain import Message
from artel.connector_gateway.relay import new_call_fields
from artel.connector_gateway.repository import find_connector
from artel.contract.connector import GUIDANCE, ReadAnswer, ReadCall
from artel.errors import ArtelError
from artel.logs import get_logger
from artel.spaces.services import SpaceServices

MAX_CHARACTERS = 8_000
READ_SECONDS = 2.0
FRESH_SECONDS = 60.0

log = get_logger(__name__)


class Guidance:
    """The AGENTS.md of one project, cached for a minute."""

    def __init__(self, services: SpaceServices, principal: Principal, project_id: int, epoch: int) -> None:
        self._services = services
        self._principal = principal
        self._project_id = project_id
        self._epoch = epoch
        self._cached: dict[str, tuple[float, str]] = {}  # by connection: when it was read, and its text

    async def messages(self) -> tuple[Message, ...]:
        """Return the message with the file's text; nothing if there is none or it can't be read quickly."""
        try:
            serving = await self._services.database.read(find_connector, self._principal, self._project_id)
            if serving is None or GUIDANCE not in serving.features:
                return ()
            read_at, text = self._cached.get(serving.line_id, (0.0, ""))
            if not read_at or time.monotonic() - read_at > FRESH_SECONDS:
                call = ReadCall(**new_call_fields(self._principal, self._epoch, READ_SECONDS), path=GUIDANCE)
                scope = self._principal, self._project_id
                result = await self._services.relay.call(*scope, "workspace/read", call, ReadAnswer)
                text = (result.content or "")[:MAX_CHARACTERS] if result.success else ""
                self._cached = {serving.line_id: (time.monotonic(), text)}
        except ArtelError as failure:
            log.info("guidance_not_read", project_id=self._project_id, reason=failure.detail)
            return ()
        return (prompts.quoted(prompts.GUIDANCE, {GUIDANCE: text}, "guidance"),) if text else ()
