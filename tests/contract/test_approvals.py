"""Waiting for a person, as transactions, on SQLite and PostgreSQL: one decision wins, and it is used once."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from artel.approvals import transactions as approvals
from artel.approvals.approval import Approval, ApprovalStatus
from artel.approvals.file_changes import read_changes, read_diff
from artel.approvals.timeline import read_timeline
from artel.contract.approval_details import ToolDetails
from artel.contract.approvals import ChangedFile
from artel.contract.connector import WriteAnswer
from artel.contract.http import PageRequest
from artel.contract.parked_run import ParkedRun, SingleCall
from artel.db.hints import ApprovalRequested, SessionHasEvents, TurnParked, TurnStopped
from artel.errors import ApprovalDecided, ArtelError, SessionBusy, StorageFull
from artel.ids import uuid7
from artel.runs.user_files import RunFiles
from artel.spaces import leases
from artel.task_workspaces.storage_quota import StorageQuota
from artel.tools.consent import Decision
from artel.turns import tool_calls
from artel.turns.end import cancel_turn
from artel.turns.tool_calls import ToolCallContents, list_calls
from artel.turns.transactions import MAX_UNFINISHED, TurnOver
from artel.turns.turn import TurnStatus
from tests.actors.chat_user import ChatUser

pytestmark = pytest.mark.anyio


PARKED = ParkedRun(agent_id=1, seconds=0.5)


async def parked(chat: ChatUser, seconds: float = 300, times: int = 1, **details: Any) -> Approval:
    """Let a turn wait for the user; `times` above 1 repeats the transaction, as after a lost answer."""
    session = await chat.session()
    turn = await chat.accept(session)
    assert await chat.start(session, turn.id)
    now = datetime.now(UTC)
    approval = Approval(
        id=uuid7(),
        project_id=chat.project_id,
        session_id=session,
        turn_id=turn.id,
        agent_id=chat.agent_id,
        kind="tool",
        tool="tool_delete_file",
        arguments={"path": "x"},
        arguments_hash="0" * 64,
        details=ToolDetails(**details),
        risk="high",
        seconds=300,
        status=ApprovalStatus.PENDING,
        holds=None,
        feedback=None,
        created_at=now,
        warned_at=None,
        expires_at=now + timedelta(seconds=seconds),
        decided_at=None,
        used_at=None,
    )
    for _ in range(times):
        await chat.database.of(chat.user).run(approvals.park_turn, turn, PARKED, approval)
    assert (await chat.turn(session, turn.id)).status is TurnStatus.WAITING
    return approval


async def stands(chat: ChatUser, approval: Approval) -> ApprovalStatus:
    return (await chat.database.read(approvals.get_approval, chat.user, approval.id)).status


async def decide(chat: ChatUser, approval: Approval, decision: str = "approve") -> Approval:
    return await chat.database.of(chat.user).run(approvals.decide, approval.id, decision, "", "once")


async def test_of_all_who_end_the_waiting_at_once_one_wins(chat: ChatUser) -> None:
    for _ in range(10):
        approval = await parked(chat)
        ends = [
            *(decide(chat, approval, decision) for decision in ("approve", "reject", "approve")),
            *(chat.database.of(chat.user).run(approvals.expire, approval.id, approval.expires_at) for _ in range(2)),
            chat.database.of(chat.user).run(cancel_turn, approval.session_id, approval.turn_id),
        ]

        outcomes = await asyncio.gather(*ends, return_exceptions=True)

        assert all(
            not isinstance(outcome, BaseException) or isinstance(outcome, ArtelError | TurnOver) for outcome in outcomes
        )
        decided = sum(not isinstance(outcome, BaseException) for outcome in outcomes[:5])
        assert decided <= 1
        status = (await chat.turn(approval.session_id, approval.turn_id)).status
        assert status is TurnStatus.CANCELLED  # it can be cancelled at any time
        assert await stands(chat, approval) is not ApprovalStatus.PENDING
        events = await chat.events(approval.session_id)
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        assert sum(event.type in ("approval_resolved", "approval_timeout") for event in events) == decided


@pytest.mark.req("CHT-03.2")
async def test_repeated_parking_is_stored_once_and_announced_each_time(chat: ChatUser) -> None:
    hints: list[object] = []
    chat.database.on_commit(SessionHasEvents, hints.append)
    chat.database.on_commit(TurnParked, hints.append)
    requested: list[ApprovalRequested] = []
    chat.database.on_commit(ApprovalRequested, requested.append)

    approval = await parked(chat, times=2)

    of_approval = [(hint.user_id, hint.project_id, hint.event.approval_id, hint.event.tool) for hint in requested]
    assert of_approval == [(chat.user.user_id, chat.project_id, approval.id, "tool_delete_file")] * 2

    assert hints[-2:] == [SessionHasEvents(approval.session_id), TurnParked(approval.turn_id)]
    assert hints.count(TurnParked(approval.turn_id)) == 2
    assert [event.type for event in await chat.events(approval.session_id)].count("tool_request") == 1


async def test_repeated_cancellation_is_stored_once_and_announced_each_time(chat: ChatUser) -> None:
    approval = await parked(chat)
    hints: list[object] = []
    chat.database.on_commit(SessionHasEvents, hints.append)
    chat.database.on_commit(TurnStopped, hints.append)

    for _ in range(2):
        turn = await chat.database.of(chat.user).run(cancel_turn, approval.session_id, approval.turn_id)
        assert turn.status is TurnStatus.CANCELLED
        assert set(hints) == {SessionHasEvents(approval.session_id), TurnStopped(approval.turn_id)}
        hints.clear()

    assert [event.type for event in await chat.events(approval.session_id)].count("turn_cancelled") == 1


async def test_an_approval_is_used_once_however_many_try(chat: ChatUser) -> None:
    approval = await parked(chat)
    assert not await chat.database.of(chat.user).run(approvals.use, approval.id)  # nobody has approved it
    await decide(chat, approval)

    used = await asyncio.gather(*(chat.database.of(chat.user).run(approvals.use, approval.id) for _ in range(8)))

    assert sum(used) == 1
    assert await stands(chat, approval) is ApprovalStatus.USED
    with pytest.raises(ApprovalDecided):
        await decide(chat, approval)


@pytest.mark.parametrize("decision", ["reject", "approve"])
async def test_what_was_decided_is_there_when_the_run_goes_on(chat: ChatUser, decision: str) -> None:
    approval = await parked(chat)

    await decide(chat, approval, decision)

    turn = await chat.turn(approval.session_id, approval.turn_id)
    assert (turn.status, turn.parked) == (TurnStatus.QUEUED, PARKED)
    [known] = await chat.database.read(approvals.decisions, chat.user, approval.turn_id)
    assert known.status == ("approved" if decision == "approve" else "rejected")
    assert await chat.start(approval.session_id, approval.turn_id)
    assert [event.type for event in await chat.events(approval.session_id)].count("direct_agent_call") == 1


async def test_expired_approval_can_not_be_decided_before_the_periodic_check(chat: ChatUser) -> None:
    approval = await parked(chat, seconds=-1)

    with pytest.raises(ApprovalDecided, match="time to decide is over"):
        await decide(chat, approval)

    assert await stands(chat, approval) is ApprovalStatus.PENDING
    await chat.database.of(chat.user).run(approvals.expire, approval.id, approval.expires_at)
    assert (await chat.turn(approval.session_id, approval.turn_id)).status is TurnStatus.QUEUED


async def test_a_warning_comes_once_a_minute_before_the_end(chat: ChatUser) -> None:
    late, soon, over = [await parked(chat, seconds) for seconds in (200, 50, -1)]
    now = datetime.now(UTC)

    async def due() -> set[str]:
        found = await chat.database.read(leases.due_approvals, now, now + timedelta(seconds=60))
        return {one.approval_id for one in found}

    assert await due() == {soon.id, over.id}
    await chat.database.of(chat.user).run(approvals.warn, soon.id, soon.expires_at)
    assert await due() == {over.id}
    [warning] = [event for event in await chat.events(soon.session_id) if event.type == "approval_timeout_warning"]
    assert 0 < warning.data["seconds_left"] <= 50
    assert await stands(chat, late) is ApprovalStatus.PENDING


@pytest.mark.req("DEC-01.1")
async def test_extended_approval_does_not_expire_at_its_old_time(chat: ChatUser) -> None:
    approval = await parked(chat, seconds=50)
    await chat.database.of(chat.user).run(approvals.warn, approval.id, approval.expires_at)

    extended = await chat.database.of(chat.user).run(approvals.extend, approval.id, 600)

    assert extended.expires_at == approval.expires_at + timedelta(seconds=600)
    for end in (approvals.expire, approvals.warn):  # as a host does that read the old time
        with pytest.raises(ApprovalDecided, match="extended"):
            await chat.database.of(chat.user).run(end, approval.id, approval.expires_at)
    assert await stands(chat, approval) is ApprovalStatus.PENDING
    soon = extended.expires_at - timedelta(seconds=30)
    [due] = await chat.database.read(leases.due_approvals, soon, soon + timedelta(seconds=60))  # it is warned of again
    assert due.approval_id == approval.id
    over = await parked(chat, seconds=-1)
    with pytest.raises(ApprovalDecided, match="time to decide is over"):
        await chat.database.of(chat.user).run(approvals.extend, over.id, 600)


async def test_only_an_expired_approval_can_be_repeated_and_only_once(chat: ChatUser) -> None:
    approval = await parked(chat)
    with pytest.raises(ApprovalDecided):
        await chat.database.of(chat.user).run(approvals.ask_again, approval.id, uuid7(), uuid7())
    await chat.database.of(chat.user).run(approvals.expire, approval.id, approval.expires_at)

    outcomes = await asyncio.gather(
        *(chat.database.of(chat.user).run(approvals.ask_again, approval.id, uuid7(), uuid7()) for _ in range(4)),
        return_exceptions=True,
    )

    [again] = [outcome for outcome in outcomes if isinstance(outcome, Approval)]
    assert (again.arguments, again.arguments_hash) == (approval.arguments, approval.arguments_hash)
    assert again.turn_id != approval.turn_id
    turn = await chat.turn(again.session_id, again.turn_id)
    assert turn.status is TurnStatus.WAITING
    assert turn.parked == ParkedRun(single=SingleCall(tool="tool_delete_file", arguments={"path": "x"}))


@pytest.mark.req("AGT-02.7")
async def test_approval_of_a_nodes_own_tool_can_not_be_repeated(chat: ChatUser) -> None:
    approval = await parked(chat, node="agent.scribe.001")
    await chat.database.of(chat.user).run(approvals.expire, approval.id, approval.expires_at)

    with pytest.raises(
        ApprovalDecided, match=r"agent\.scribe\.001 went on without tool_delete_file\. Send your message"
    ):
        await chat.database.of(chat.user).run(approvals.ask_again, approval.id, uuid7(), uuid7())


async def test_what_is_asked_again_is_bound_to_what_was_shown(chat: ChatUser) -> None:
    shown: dict[str, Any] = {"diff": "+x", "old_sha256": "", "new_sha256": "b" * 64}
    approval = await parked(chat, **shown, ask_id="q1", where="terminal", grant="*")
    await chat.database.of(chat.user).run(approvals.expire, approval.id, approval.expires_at)

    again = await chat.database.of(chat.user).run(approvals.ask_again, approval.id, uuid7(), uuid7())

    assert again.details.shown() == shown


async def test_a_call_that_makes_no_sense_uses_no_approval_up_and_is_noted(chat: ChatUser) -> None:
    approval = await parked(chat)
    await decide(chat, approval)
    services = SimpleNamespace(database=chat.database)
    space: Any = SimpleNamespace(
        services=services, principal=chat.user, project_id=chat.project_id, lease=None, pace=None
    )
    agent: Any = SimpleNamespace(id=chat.agent_id, name="agent_coder")
    listener = SimpleNamespace(workflow_id="", task_id=approval.turn_id)
    task: Any = SimpleNamespace(
        session_id=approval.session_id, turn_id=approval.turn_id, waiting=None, listener=listener
    )
    files = RunFiles(space, agent, task, lambda: None)

    result = await files.call_connector(
        "tool_delete_file", "workspace/delete", {"path": 5}, Decision(approval.id, "approved")
    )

    assert (result.success, result.error) == (
        False,
        "It was not sent: path: Input should be a valid string. Correct it.",
    )
    assert await stands(chat, approval) is ApprovalStatus.APPROVED
    [noted], _ = await chat.database.read(list_calls, chat.user, chat.project_id, PageRequest(10))
    assert (noted.tool, noted.status, noted.error) == ("tool_delete_file", "failed", result.error)


def connected(chat: ChatUser, approval: Approval, diff: str) -> RunFiles:
    """Return the files of a run whose connector makes every change, and tells this diff."""

    async def call(*_: object) -> WriteAnswer:
        return WriteAnswer.model_validate({"success": True, "diff": diff})

    services = SimpleNamespace(database=chat.database, relay=SimpleNamespace(call=call))
    space: Any = SimpleNamespace(
        services=services, principal=chat.user, project_id=chat.project_id, lease=None, pace=None
    )
    agent: Any = SimpleNamespace(id=chat.agent_id, name="agent_coder")
    listener = SimpleNamespace(workflow_id="", task_id="")
    task: Any = SimpleNamespace(
        session_id=approval.session_id, turn_id=approval.turn_id, waiting=None, listener=listener
    )
    return RunFiles(space, agent, task, lambda: None)


async def delete_file(files: RunFiles, path: str, approval: Approval | None = None) -> None:
    decision = Decision(approval.id, "approved") if approval else None
    result = await files.call_connector("tool_delete_file", "workspace/delete", {"path": path}, decision)
    assert result.success, result


async def changed_file(chat: ChatUser) -> ChangedFile:
    page = await chat.database.read(read_changes, chat.user, chat.project_id, PageRequest(10))
    [[file]] = [turn.files for turn in page.items]
    return file


async def stored_bytes(chat: ChatUser) -> int:
    return await chat.database.read(lambda connection: ToolCallContents(connection, chat.user).stored_bytes())


DIFF = "--- a\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n"


@pytest.mark.req("CHT-10.1", "SEC-05.3")
@pytest.mark.parametrize("is_same", [True, False])
async def test_diff_of_an_approved_change_is_stored_once(chat: ChatUser, is_same: bool) -> None:
    approval = await parked(chat, diff=DIFF if is_same else "-another\n")
    await decide(chat, approval)

    await delete_file(connected(chat, approval, DIFF), "a", approval)

    file = await changed_file(chat)
    assert (file.added, file.removed) == (0, 2)
    assert file.call_id
    shown = await chat.database.read(read_diff, chat.user, chat.project_id, file.call_id)
    assert shown.diff == DIFF
    assert await stored_bytes(chat) == (0 if is_same else len(DIFF))


@pytest.mark.req("CHT-10.1", "SEC-05.3")
async def test_diffs_of_a_session_are_bounded(chat: ChatUser, monkeypatch: pytest.MonkeyPatch) -> None:
    approval = await parked(chat)
    files = connected(chat, approval, DIFF)
    monkeypatch.setattr(tool_calls, "MAX_CONTENTS_BYTES", len(DIFF))
    await delete_file(files, "a")
    assert (await changed_file(chat)).call_id
    await delete_file(files, "a")

    file = await changed_file(chat)

    assert (file.changes, file.removed, file.call_id) == (2, 4, None)  # the last one has no diff
    page = await chat.database.read(read_timeline, chat.user, approval.session_id, PageRequest(10))
    changes = [item.file_change for item in page.items if item.file_change]
    assert [(change.removed, change.has_diff) for change in changes] == [(2, True), (2, False)]
    assert await stored_bytes(chat) == len(DIFF)


@pytest.mark.req("SEC-05.3")
async def test_diffs_count_against_the_storage_quota(chat: ChatUser) -> None:
    approval = await parked(chat)
    workspaces: Any = SimpleNamespace(size_of=lambda _agents: 0)

    async def used() -> int:
        with pytest.raises(StorageFull) as full:
            async with StorageQuota(chat.database, workspaces, 1).reserved(chat.user, 1):
                pass
        return int(full.value.detail.removeprefix("Your storage is full: ").split(" ")[0].replace(",", ""))

    before = await used()
    await delete_file(connected(chat, approval, DIFF), "a")

    assert await used() == before + len(DIFF)


async def test_repeated_approval_counts_as_a_message(chat: ChatUser) -> None:
    approval = await parked(chat)
    await chat.database.of(chat.user).run(approvals.expire, approval.id, approval.expires_at)
    more = [await chat.accept(approval.session_id) for _ in range(MAX_UNFINISHED - 1)]

    with pytest.raises(SessionBusy):
        await chat.database.of(chat.user).run(approvals.ask_again, approval.id, uuid7(), uuid7())

    assert await stands(chat, approval) is ApprovalStatus.EXPIRED
    assert await chat.finish(approval.session_id, more[-1].id)
    await chat.database.of(chat.user).run(approvals.ask_again, approval.id, uuid7(), uuid7())
    with pytest.raises(SessionBusy):
        await chat.accept(approval.session_id)


async def test_what_was_decided_about_an_earlier_call_is_over(chat: ChatUser) -> None:
    approval = await parked(chat)
    await decide(chat, approval, "reject")
    turn = await chat.turn(approval.session_id, approval.turn_id)
    assert await chat.start(approval.session_id, approval.turn_id)
    again = replace(approval, id=uuid7(), arguments_hash="1" * 64, status=ApprovalStatus.PENDING)
    await chat.database.of(chat.user).run(approvals.park_turn, turn, PARKED, again)
    await decide(chat, again)

    known = await chat.database.read(approvals.decisions, chat.user, approval.turn_id)

    assert [one.id for one in known] == [again.id]
