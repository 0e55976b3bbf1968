import { describe, expect, test } from "vitest";
import type { PageTimelineItem, SessionEvent, SessionStreamItem } from "@/api/types";
import { heardLive, openedAt, recordings, reduceAll, shownOf } from "./recordings";
import { reduceSession } from "./reducer";
import { refetchAfter } from "./refetch";
import { answerDrafts, createRows, taskDrafts } from "./rows";
import { type SessionState, emptySession } from "./types";

const shownRows = (state: SessionState) => createRows()(state).map((row) => (row.kind === "entry" ? shownOf(row.entry) : row));

describe.each(Object.entries(recordings))("the recorded stream %s", (_name, recording) => {
  const { sessionId, events } = recording;
  const reloaded = openedAt(recording, -1);

  test("shows the same live and after a reload", () => {
    const live = heardLive(recording);
    expect(shownRows(live)).toEqual(shownRows(reloaded));
    expect(shownRows(live).length).toBeGreaterThan(2);
  });

  test("shows the same when it is opened in the middle", () => {
    expect(shownRows(openedAt(recording, 0))).toEqual(shownRows(reloaded));
  });

  test("leaves nothing open at the end", () => {
    for (const state of [heardLive(recording), openedAt(recording, 0), reloaded]) {
      expect(state.turns).toEqual({});
      expect(state.drafts).toEqual({});
      expect(state.calls).toEqual({});
      expect(state.approvals).toEqual([]);
    }
  });

  test("is not changed by events that come again", () => {
    const once = reduceAll(emptySession(sessionId), events);
    const numbered = events.filter((event): event is SessionEvent => "number" in event);
    const twice = reduceAll(reduceAll(emptySession(sessionId), events.slice(0, 40)), events);
    expect(reduceAll(once, numbered)).toEqual(once);
    expect(shownRows(twice)).toEqual(shownRows(once));
  });

  test("keeps answers after their questions at every moment", () => {
    let state = emptySession(sessionId);
    const select = createRows();
    for (const event of events) {
      state = reduceSession(state, event);
      const turns = select(state).flatMap((row) => (row.kind === "entry" ? [row.entry.turn_id] : row.kind === "draft" ? [row.turnId] : []));
      const grouped = turns.filter((turn, place) => turn !== turns[place - 1]);
      expect(new Set(grouped).size).toBe(grouped.length);
    }
  });
});

test("an answer grows piece by piece, and is replaced by the stored message", () => {
  const { sessionId, events } = recordings.direct;
  const completed = events.findIndex(({ type }) => type === "message_completed");
  const before = reduceAll(emptySession(sessionId), events.slice(0, completed));
  const [draft] = answerDrafts(before);
  const stored = events[completed];
  if (stored?.type !== "message_completed") throw new Error("no answer");
  expect(draft?.text).toBe(stored.content);
  const after = reduceSession(before, stored);
  expect(answerDrafts(after).filter(({ turnId }) => turnId === stored.turn_id)).toEqual([]);
  expect(after.items[stored.message_id]).toMatchObject({ kind: "message", message: { content: stored.content } });
});

test("the words of a plan's tasks are not the answer", () => {
  const { sessionId, events } = recordings.plan;
  const seen = new Set<string>();
  let state = emptySession(sessionId);
  for (const event of events) {
    state = reduceSession(state, event);
    if (event.turn_id) for (const task of Object.keys(taskDrafts(state, event.turn_id))) seen.add(task);
  }
  expect(seen.size).toBe(3);
});

test("a question waits, with what it is about, until it is decided", () => {
  const { sessionId, events } = recordings.files;
  const asked = events.findIndex(({ type }) => type === "tool_request");
  const waiting = reduceAll(emptySession(sessionId), events.slice(0, asked + 1));
  expect(waiting.approvals).toHaveLength(1);
  expect(waiting.approvals[0]?.details.diff).toContain("hello");
  expect(Object.values(waiting.turns)[0]?.status).toBe("waiting");
  const decided = events.findIndex(({ type }) => type === "approval_resolved");
  const going = reduceAll(waiting, events.slice(asked + 1, decided + 1));
  expect(going.approvals).toEqual([]);
  expect(Object.values(going.turns)[0]?.status).toBe("running");
});

test("a page that was asked for before an event does not undo it", () => {
  const recording = recordings.files;
  const [first] = recording.snapshots;
  if (!first) throw new Error("no snapshot");
  const later = openedAt(recording, 0);
  const stale = reduceSession(later, { type: "timeline_loaded", page: first.snapshot.timeline, asOf: first.snapshot.lastEvent });
  const approvals = (state: SessionState) => Object.values(state.items).flatMap((item) => (item.kind === "approval" ? [item.approval.status] : []));
  expect(approvals(stale)).toEqual(approvals(later));
  expect(reduceSession(later, { type: "approvals_loaded", items: first.snapshot.approvals, asOf: first.snapshot.lastEvent }).approvals).toEqual([]);
});

describe("partial text", () => {
  const piece = (type: "message_delta" | "message_snapshot", n: number, text: string): SessionStreamItem => ({
    type,
    session_id: "s",
    turn_id: "t",
    message_id: "m",
    task_id: "t",
    n,
    text,
  });
  const textOf = (...pieces: SessionStreamItem[]) => reduceAll(emptySession("s"), pieces).drafts.m?.text;

  test("deltas are added once", () => {
    expect(textOf(piece("message_delta", 1, "a"), piece("message_delta", 2, "b"), piece("message_delta", 2, "b"), piece("message_delta", 1, "a"))).toBe("ab");
  });

  test("a snapshot replaces what is there, and deltas up to its number are dropped", () => {
    expect(textOf(piece("message_delta", 1, "x"), piece("message_snapshot", 3, "abc"), piece("message_delta", 3, "c"), piece("message_delta", 4, "d"))).toBe("abcd");
  });

  test("a model call that is tried again begins with an empty snapshot", () => {
    expect(textOf(piece("message_delta", 5, "old"), piece("message_snapshot", 0, ""), piece("message_delta", 1, "new"))).toBe("new");
  });

  test("nothing comes of a turn that is over", () => {
    const ended = { type: "turn_cancelled", number: 1, session_id: "s", turn_id: "t", timestamp: "2026-01-01T00:00:00Z", status: "cancelled" } as const;
    expect(textOf(ended, piece("message_snapshot", 1, "late"))).toBeUndefined();
  });
});

test("a message on its way is shown until its stored form is there", () => {
  const created = recordings.direct.events.find(({ type }) => type === "message_created");
  if (created?.type !== "message_created" || created.turn_id === null) throw new Error("no message");
  const sending = reduceSession(emptySession("s"), { type: "sending", key: "k", content: created.content, attachments: [], at: created.timestamp });
  const kinds = (state: SessionState) => createRows()(state).map(({ kind }) => kind);
  expect(kinds(sending)).toEqual(["sending"]);
  const accepted = reduceSession(sending, { type: "accepted", key: "k", turnId: created.turn_id });
  expect(kinds(accepted)).toEqual(["sending"]);
  expect(kinds(reduceSession(accepted, created))).toEqual(["entry"]);
  const early = reduceSession(sending, created);
  expect(kinds(reduceSession(early, { type: "accepted", key: "k", turnId: created.turn_id }))).toEqual(["entry"]);
  expect(kinds(reduceSession(sending, { type: "send_failed", key: "k" }))).toEqual([]);
});

test("rows are the same array while only text is added", () => {
  const { sessionId, events } = recordings.direct;
  const select = createRows();
  let state = emptySession(sessionId);
  let [deltas, changes] = [0, 0];
  for (const event of events) {
    const before = select(state);
    const isNew = event.type === "message_delta" && !(event.message_id in state.drafts);
    state = reduceSession(state, event);
    if (event.type !== "message_delta" || isNew) continue;
    deltas += 1;
    if (select(state) !== before) changes += 1;
  }
  expect(deltas).toBeGreaterThan(50);
  expect(changes).toBe(0);
});

test("what an event only announces is loaded after it", () => {
  const { sessionId, events } = recordings.plan;
  const state = reduceAll(emptySession(sessionId), events);
  const numbered = events.filter((event): event is SessionEvent => "number" in event);
  const workflow = numbered.find(({ type }) => type === "task_plan_created");
  if (workflow?.type !== "task_plan_created") throw new Error("no plan");
  const of = (type: string) => refetchAfter(state, numbered.filter((event) => event.type === type));
  expect(of("plan_request")).toEqual({ timeline: false, approvals: true, session: false, plans: [workflow.workflow_id] });
  expect(of("turn_completed")).toEqual({ timeline: true, approvals: false, session: true, plans: [workflow.workflow_id] });
  expect(of("context_retrieved")).toEqual({ timeline: false, approvals: false, session: false, plans: [] });
});

test("a plan that goes on in a new turn hears the events of that turn before it is loaded again", () => {
  const { sessionId, events } = recordings.plan;
  const over = reduceAll(emptySession(sessionId), events);
  const [plan] = Object.values(over.plans);
  const task = plan?.tasks[0];
  if (!plan || !task) throw new Error("no plan");
  const of = (number: number, event: object) =>
    ({ session_id: sessionId, turn_id: "again", timestamp: task.started_at, number: over.lastEvent + number, ...event }) as unknown as SessionEvent;
  const ended = of(3, { type: "turn_completed", usage: {} });
  const state = reduceAll(over, [
    of(1, { type: "task_progress", task_id: "again", phase: "retry", state: "queued", elapsed_seconds: 0, workflow_id: plan.id }),
    of(2, { type: "task_completed", task_id: task.id, result: "Better.", duration: 1 }),
    ended,
  ]);
  expect(state.plans[plan.id]?.tasks[0]?.result).toBe("Better.");
  expect(refetchAfter(state, [ended]).plans).toEqual([plan.id]);
});

test("a task fails when its call can't be paid, and is cancelled when it may not begin", () => {
  const { sessionId, events } = recordings.plan;
  const begun = events.findIndex(({ type }) => type === "task_started");
  const running = reduceAll(emptySession(sessionId), events.slice(0, begun + 1));
  const [plan] = Object.values(running.plans);
  const [first, second] = [plan?.tasks.find(({ status }) => status === "running"), plan?.tasks.find(({ status }) => status === "pending")];
  if (!plan || !first || !second) throw new Error("no plan with a task that runs and one that waits");
  const unpaid = (number: number, task_id: string) =>
    ({ ...events[begun], type: "task_failed", number: running.lastEvent + number, task_id, code: "budget_exceeded", error: "Used up." }) as unknown as SessionEvent;
  const state = reduceAll(running, [unpaid(1, first.id), unpaid(2, second.id)]);
  const statusOf = (id: string) => state.plans[plan.id]?.tasks.find((task) => task.id === id)?.status;
  expect([statusOf(first.id), statusOf(second.id)]).toEqual(["failed", "cancelled"]);
});

test("a call that was loaded when it was just sent goes when it has become a question", () => {
  const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 10, 0, second)).toISOString();
  const call = (id: string, second: number, status: string) => ({ id, kind: "tool_call", at: at(second), turn_id: "t", text: "", tool_call: { tool: "tool_write_file", arguments: {}, status } });
  const page = (...items: object[]) => ({ items, total: items.length, limit: 50, offset: 0 }) as unknown as PageTimelineItem;
  const sent = reduceSession(emptySession("s"), { type: "timeline_loaded", page: page(call("a", 1, "done"), call("b", 2, "sent")), asOf: 1 });
  expect(Object.keys(sent.items)).toEqual(["a", "b"]);
  const asked = reduceSession(sent, { type: "timeline_loaded", page: page(call("a", 1, "done")), asOf: 2 });
  expect(Object.keys(asked.items)).toEqual(["a"]);
});
