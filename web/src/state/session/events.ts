// What each stored event of a session changes.

import type { ChatMessage, SessionEvent } from "@/api/types";
import { approvalDecided, approvalExtended, planRequested, toolRequested } from "./approvals";
import { withoutDrafts } from "./partialText";
import { planCreated, planOfTurn, planRetried, planStarted, taskChanged } from "./plans";
import { stillSending } from "./sending";
import type { Entry, OpenTurn, SessionState } from "./types";

const MAX_ENDED = 200;

type EventOf<T extends SessionEvent["type"]> = Extract<SessionEvent, { type: T }>;

export function applyEvent(state: SessionState, event: SessionEvent): SessionState {
  switch (event.type) {
    case "message_created":
      return messageCreated(state, event);
    case "message_completed":
      return messageCompleted(state, event);
    case "message_changed":
      return changeMessage(state, event, { content: event.content });
    case "answer_continued":
      return runTurn(changeMessage(state, event, { status: "continued" }), event, { continues: event.message_id });
    case "direct_agent_call":
      return runTurn(state, event, { status: "running", agentId: event.agent_id, startedAt: event.timestamp });
    case "task_plan_created":
      return planCreated(state, event);
    case "plan_request":
      return planRequested(runTurn(state, event, { status: "waiting" }), event);
    case "tool_request":
      return toolRequested(taskChanged(runTurn(state, event, { status: "waiting" }), event, { status: "waiting" }), event);
    case "approval_resolved":
      return approvalDecided(state, event, event.decision === "approve" ? "approved" : "rejected");
    case "approval_timeout":
      return approvalDecided(state, event, "expired");
    case "approval_extended":
      return approvalExtended(state, event);
    case "tool_called":
      return toolCalled(state, event);
    case "tool_result":
      return toolReturned(state, event);
    case "turn_completed":
    case "turn_failed":
    case "turn_cancelled":
      return turnEnded(state, event);
    default:
      return applyTaskEvent(state, event);
  }
}

function applyTaskEvent(state: SessionState, event: SessionEvent): SessionState {
  switch (event.type) {
    case "task_progress":
      return planRetried(runTurn(state, event, { phase: event.phase, ...(event.state === "running" ? { status: "running" } : {}) }), event);
    case "task_started": {
      const change = { status: "running", agent_id: event.agent_id, started_at: event.timestamp, error: null };
      return planStarted(taskChanged(runTurn(state, event, { status: "running", phase: null }), event, change), event);
    }
    case "task_completed":
      return taskChanged(state, event, { status: "completed", result: event.result, error: null, finished_at: event.timestamp });
    case "task_failed": {
      // Tasks that don't begin, or don't go on, for want of money are cancelled; a call that could not be paid fails its task.
      const isRunning = planOfTurn(state, event.turn_id)?.tasks.some(({ id, status }) => id === event.task_id && status === "running");
      const status = { dependency_failed: "aborted", timeout: "timeout", budget_exceeded: isRunning ? "failed" : "cancelled" }[event.code] ?? "failed";
      return taskChanged(state, event, { status, error: event.error, error_code: event.code, finished_at: event.timestamp });
    }
    case "task_cancelled":
      return taskChanged(state, event, { status: "cancelled", finished_at: event.timestamp });
    default:
      return state; // events that concern a project, or of a newer server
  }
}

/** Change a turn that is not over; it may not be known yet. */
function runTurn(state: SessionState, event: SessionEvent, change: Partial<OpenTurn>): SessionState {
  const id = event.turn_id;
  if (id === null || state.ended.includes(id)) return state;
  const before: OpenTurn = state.turns[id] ?? { id, status: "queued", agentId: null, phase: null, startedAt: null, continues: null };
  return { ...state, turns: { ...state.turns, [id]: { ...before, ...change } } };
}

function messageCreated(state: SessionState, event: EventOf<"message_created">): SessionState {
  const { message_id: id, turn_id, role, content, timestamp } = event;
  const retryOf = event.retry_of ?? null;
  const attachments = (event.attachments ?? []) as ChatMessage["attachments"];
  const message: ChatMessage = { ...emptyMessage(event), id, role, content, retry_of: retryOf, attachments };
  const entry: Entry = { id, kind: "message", at: timestamp, turn_id, text: "", message };
  const items = { ...(retryOf === null ? state.items : markRetried(state.items, retryOf)), [id]: state.items[id] ?? entry };
  return runTurn({ ...state, items, sending: stillSending(state, items) }, event, {});
}

function emptyMessage(event: SessionEvent): ChatMessage {
  return {
    id: "",
    number: 0,
    turn_id: event.turn_id,
    role: "user",
    content: "",
    agent_id: null,
    agent: null,
    status: "ok",
    error_code: null,
    retry_of: null,
    tokens: 0,
    feedback: null,
    attachments: [],
    timestamp: event.timestamp,
  };
}

function markRetried(items: SessionState["items"], turnId: string): SessionState["items"] {
  const changed = Object.values(items).map((item): Entry =>
    item.kind === "message" && item.turn_id === turnId ? { ...item, message: { ...item.message, status: "retried" } } : item,
  );
  return Object.fromEntries(changed.map((item) => [item.id, item]));
}

function messageCompleted(state: SessionState, event: EventOf<"message_completed">): SessionState {
  const { message_id: id, turn_id, role, content, agent_id, timestamp, status = "ok" } = event;
  const code = event.error_code ?? null;
  const common = { id, at: timestamp, turn_id, text: "" };
  const entry: Entry =
    role === "system"
      ? { ...common, kind: "notice", text: content, notice: { code } }
      : { ...common, kind: "message", message: { ...emptyMessage(event), ...answerFacts(event), id, role, content, agent_id, status, error_code: code } };
  return { ...state, items: { ...state.items, [id]: state.items[id] ?? entry }, drafts: withoutDrafts(state.drafts, turn_id) };
}

function answerFacts({ continues, usage, duration_ms, context }: EventOf<"message_completed">): Partial<ChatMessage> {
  return { continues: continues ?? null, usage: usage ?? null, duration_ms: duration_ms ?? null, context: context ?? null };
}

/** Change a message that is there; what a page that was loaded earlier says of it is older. */
function changeMessage(state: SessionState, event: SessionEvent & { message_id: string }, change: Partial<ChatMessage>): SessionState {
  const item = state.items[event.message_id];
  if (item?.kind !== "message") return state;
  const changed: Entry = { ...item, message: { ...item.message, ...change } };
  return { ...state, items: { ...state.items, [item.id]: changed }, touched: { ...state.touched, [item.id]: event.number } };
}

function toolCalled(state: SessionState, event: EventOf<"tool_called">): SessionState {
  const { call_id, turn_id: turnId, task_id: taskId, agent_id: agentId, tool, timestamp: at } = event;
  const key = callKey(event.task_id, call_id);
  const call = { key, turnId, taskId, agentId, tool, at, returned: null, success: null, error: null };
  const running = runTurn(state, event, { status: "running" });
  return taskChanged({ ...running, calls: { ...state.calls, [key]: call } }, event, { status: "running" });
}

function toolReturned(state: SessionState, event: EventOf<"tool_result">): SessionState {
  const call = state.calls[callKey(event.task_id, event.call_id)];
  if (!call) return state;
  const returned = { ...call, returned: event.number, success: event.success, error: event.error ?? null };
  return { ...state, calls: { ...state.calls, [call.key]: returned } };
}

function callKey(taskId: string, callId: string): string {
  return `${taskId}/${callId}`;
}

function turnEnded(state: SessionState, event: EventOf<"turn_completed" | "turn_failed" | "turn_cancelled">): SessionState {
  const id = event.turn_id;
  if (id === null) return state;
  const turns = { ...state.turns };
  Reflect.deleteProperty(turns, id);
  return {
    ...state,
    turns,
    ended: [...state.ended, id].slice(-MAX_ENDED),
    drafts: withoutDrafts(state.drafts, id),
    // A call without a result has no end any more; the timeline tells what became of it.
    calls: Object.fromEntries(Object.entries(state.calls).filter(([, call]) => call.turnId !== id || call.returned !== null)),
    approvals: state.approvals.filter(({ turn_id }) => turn_id !== id),
    usage: event.type === "turn_completed" ? { ...state.usage, [id]: event.usage } : state.usage,
  };
}
