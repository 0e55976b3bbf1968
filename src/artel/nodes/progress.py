"""Progress of the tasks of a node: who waits for one learns that it is alive, where it is and whether it moves."""

from collections.abc import Iterator

from artel.contract.envelope import Envelope, Event
from artel.contract.node_messages import TASK_PROGRESS, Progress
from artel.nodes.event_thread import Connect, EventThread
from artel.nodes.status import NodeStatus


class ProgressThread(EventThread):
    """Sends the progress of every running task at each interval, and nothing while no task runs."""

    def __init__(self, status: NodeStatus, connect: Connect) -> None:
        super().__init__("progress", status, connect, status.file.progress_heartbeat.interval_seconds)

    def start(self) -> None:
        """Start the thread, unless the agent's file switches progress off."""
        if self._status.file.progress_heartbeat.enabled:
            super().start()

    def _events(self) -> Iterator[Envelope]:
        status = self._status
        for task in status.tasks():
            if not status.is_running(task.task_id):
                continue  # it ended while the progress of another one was sent
            progress = Progress(
                task_id=task.task_id,
                elapsed_seconds=task.elapsed_seconds,
                phase=task.phase,
                idle_seconds=task.idle_seconds,
                blocked_seconds=round(status.loop_watch.blocked_seconds(), 3),
                node=status.file.name,
                epoch=status.epoch,
            )
            yield self._envelope(Event(event_type=TASK_PROGRESS, event_data=progress.model_dump()), task.task_id)
