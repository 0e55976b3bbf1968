"""Signatures that tell a node which call a person has approved: only who has the key of server and nodes makes them."""

import hashlib
import hmac
import json
import time
from dataclasses import astuple, dataclass

from pydantic import SecretStr

from artel.contract.node_messages import CallApproval

KEY_MISSING = "Set ARTEL_NODE_KEY, the same on the server and its nodes, to let people approve calls of nodes' tools."


@dataclass(frozen=True, slots=True)
class ApprovedCall:
    """A call of a node's own tool, and the task that it is part of."""

    user_id: int | None
    project_id: int | None
    task_id: str  # of the worker space
    call_id: str
    tool: str
    arguments_hash: str
    node: str  # the name that the person was shown

    def approval(self, key: SecretStr, expires: int) -> CallApproval:
        """Return the signed approval; `expires` is in seconds of `time.time()`."""
        return CallApproval(signature=self._signature(key, expires), expires=expires)

    def is_approved(self, key: SecretStr, approval: CallApproval) -> bool:
        """Return whether exactly this call was approved, and not too long ago."""
        expected = self._signature(key, approval.expires)
        is_signed = hmac.compare_digest(expected.encode(), approval.signature.encode(errors="replace"))
        return is_signed and time.time() < approval.expires

    def _signature(self, key: SecretStr, expires: int) -> str:
        canonical = json.dumps([*astuple(self), expires], separators=(",", ":"), ensure_ascii=True)
        return hmac.new(key.get_secret_value().encode(), canonical.encode(), hashlib.sha256).hexdigest()
