"""The lock that allows one instance of an agent: an exclusive queue named like the agent."""

import asyncio
from contextlib import suppress

from artel.bus.bus import Bus, BusClosed, Lock, LockCallback, LockState, NameTaken
from artel.contract.agent_file import AgentFile
from artel.errors import ArtelError, Kind
from artel.logs import get_logger
from artel.retry import Backoff, retry

CRASH_SECONDS = 1.0  # for the broker to notice that the last instance was killed
AGAIN_BACKOFF = Backoff(0.1, 0.3)
RECHECK_SECONDS = 1.0

log = get_logger(__name__)


class AgentAlreadyRunningError(ArtelError, kind=Kind.CONFLICT, code="agent_already_running"):
    """Another instance of the agent holds its lock."""

    def __init__(self, agent_name: str) -> None:
        super().__init__(
            f"Agent '{agent_name}' is already running. Stop the existing instance before starting a new one."
        )
        self.agent_name = agent_name


class SingletonLock:
    """Holds the lock of an agent; `on_change` is called in the event loop when it is lost, held again or taken over.

    A node whose lock is lost takes no commands until it is held again. A conflict is final: another instance took over
    while this one was cut off, and this one has to end.
    """

    def __init__(self, file: AgentFile, bus: Bus) -> None:
        self._name = file.name
        self._enabled = file.singleton.enabled
        self.queue = f"{file.singleton.queue_prefix}.{file.name}"
        self._bus = bus
        self._lock: Lock | None = None
        self.on_change: LockCallback = lambda _state: None
        self._settled = asyncio.Event()  # set while it is held, and after a conflict
        self._conflict = False

    @property
    def is_held(self) -> bool:
        """Whether this instance may act: it holds the lock, or the agent's file says that it needs none."""
        return not self._enabled or (self._lock is not None and self._lock.is_held)

    async def acquire(self) -> None:
        """Take the lock; raise AgentAlreadyRunningError if another instance has it, BusUnavailable without a broker."""
        if not self._enabled:
            return

        def note(_taken: NameTaken) -> None:
            log.debug("lock_taken", queue=self.queue)

        try:
            self._lock = await retry(
                lambda: self._bus.lock(self.queue, self._changed), NameTaken, AGAIN_BACKOFF, note, CRASH_SECONDS
            )
        except NameTaken as taken:
            self._log_conflict()
            raise AgentAlreadyRunningError(self._name) from taken
        self._settled.set()
        self._log_acquired()

    async def release(self) -> None:
        """Free the lock at once."""
        lock, self._lock = self._lock, None
        if lock:
            was_held = lock.is_held
            await lock.release()
            if was_held:
                log.info(self._line("Singleton lock released (graceful shutdown)"))

    async def wait_until_held(self) -> None:
        """Wait while the lock is lost; raise AgentAlreadyRunningError after a conflict, BusClosed after the release."""
        while not await self._is_confirmed():
            if self._conflict:
                raise AgentAlreadyRunningError(self._name)
            if self._lock is None:
                raise BusClosed(f"Agent '{self._name}' has released its lock.")
            self._settled.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(RECHECK_SECONDS):  # a lock that was only unconfirmed changes no state
                    await self._settled.wait()

    async def _is_confirmed(self) -> bool:
        return self.is_held and (self._lock is None or await self._lock.is_confirmed())

    def _changed(self, state: LockState) -> None:
        match state:
            case LockState.LOST:
                log.warning(self._line(f"Singleton lock lost (queue: {self.queue}), no commands until it is back"))
            case LockState.HELD:
                self._settled.set()
                self._log_acquired()
            case LockState.CONFLICT:
                self._conflict = True
                self._settled.set()
                self._log_conflict()
            case LockState.RELEASED:
                self._settled.set()
                return
        self.on_change(state)

    def _log_acquired(self) -> None:
        log.info(self._line(f"Singleton lock acquired (queue: {self.queue})"))

    def _log_conflict(self) -> None:
        log.error(self._line(f"SINGLETON CONFLICT: Agent '{self._name}' already running!"))
        log.error(self._line(f"Another instance holds exclusive queue '{self.queue}'"))
        log.error(self._line("Action: Stop the existing instance or use a different agent name"))
        log.error(self._line("Shutting down to prevent duplicate processing"))

    def _line(self, text: str) -> str:
        """Return a log line as operators search for it: the name of the agent, then the text."""
        return f"[{self._name}] {text}"
