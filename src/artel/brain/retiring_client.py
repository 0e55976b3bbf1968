"""A model client that can be replaced while calls use it."""

from artel.brain.brain import Brain, Completion, Request, TokenSink
from artel.brain.providers import ProviderAccount


class RetiringClient:
    """The client of an account; once that has changed, it is closed after its last call."""

    def __init__(self, brain: Brain, account: ProviderAccount) -> None:
        self.brain = brain
        self.account = account
        self._calls = 0
        self._is_retired = False

    async def complete(self, request: Request, stream: TokenSink | None = None) -> Completion:
        """Return the model's answer."""
        self._calls += 1
        try:
            return await self.brain.complete(request, stream)
        finally:
            self._calls -= 1
            await self._close_if_over()

    async def close(self) -> None:
        """Close the client at once."""
        await self.brain.close()

    async def retire(self) -> None:
        """Close the client when no call uses it any more."""
        self._is_retired = True
        await self._close_if_over()

    async def _close_if_over(self) -> None:
        if self._is_retired and not self._calls:
            await self.brain.close()
