// Questions to the user: asked, answered, expired.

import type { ApprovalState, SessionEvent } from "@/api/types";
import type { Entry, OpenTurn, SessionState } from "./types";

type EventOf<T extends SessionEvent["type"]> = Extract<SessionEvent, { type: T }>;

export function toolRequested(state: SessionState, event: EventOf<"tool_request">): SessionState {
  const { agent_id, tool, arguments: values, risk } = event;
  return ask(state, event, { kind: "tool", agent_id, tool, arguments: values, risk });
}

export function planRequested(state: SessionState, event: EventOf<"plan_request">): SessionState {
  const kind = "agreed_cost" in event.details ? "budget" : "plan";
  const asked = ask(state, event, { kind, agent_id: null, tool: "", arguments: {}, risk: "" });
  const plan = asked.plans[event.workflow_id];
  if (!plan) return asked;
  const waiting = { ...plan, status: "awaiting_approval", approval_id: event.approval_id };
  return {
    ...asked,
    plans: { ...asked.plans, [plan.id]: waiting },
    touched: { ...asked.touched, [plan.id]: event.number },
  };
}

function ask(
  state: SessionState,
  event: EventOf<"tool_request" | "plan_request">,
  what: Pick<ApprovalState, "kind" | "agent_id" | "tool" | "arguments" | "risk">,
): SessionState {
  if (event.turn_id === null || state.approvals.some(({ id }) => id === event.approval_id)) return state;
  const common = { ...what, details: event.details, status: "pending", feedback: null, expires_at: event.expires_at, decided_at: null };
  const approval = {
    ...common,
    id: event.approval_id,
    project_id: state.session?.project_id ?? 0,
    session_id: event.session_id,
    turn_id: event.turn_id,
    created_at: event.timestamp,
  } as ApprovalState; // what the event does not tell, such as names, is loaded soon
  const where = typeof event.details.where === "string" ? event.details.where : null;
  const entry: Entry = {
    id: event.approval_id,
    kind: "approval",
    at: event.timestamp,
    turn_id: event.turn_id,
    text: "",
    approval: { ...common, holds: null, where },
  };
  return {
    ...state,
    approvals: [...state.approvals, approval],
    items: { ...state.items, [entry.id]: entry },
    touched: { ...state.touched, [entry.id]: event.number },
  };
}

export function approvalDecided(
  state: SessionState,
  event: EventOf<"approval_resolved" | "approval_timeout">,
  status: "approved" | "rejected" | "expired",
): SessionState {
  const id = event.approval_id;
  const item = state.items[id];
  const feedback = event.type === "approval_resolved" ? event.feedback : null;
  const items =
    item?.kind === "approval"
      ? { ...state.items, [id]: { ...item, approval: { ...item.approval, status, feedback, decided_at: event.timestamp } } }
      : state.items;
  const approvals = state.approvals.filter((approval) => approval.id !== id);
  return { ...state, items, approvals, turns: goOn(state, event.turn_id, approvals), touched: { ...state.touched, [id]: event.number } };
}

export function approvalExtended(state: SessionState, event: EventOf<"approval_extended">): SessionState {
  const { approval_id: id, expires_at } = event;
  const item = state.items[id];
  return {
    ...state,
    approvals: state.approvals.map((approval) => (approval.id === id ? { ...approval, expires_at } : approval)),
    items: item?.kind === "approval" ? { ...state.items, [id]: { ...item, approval: { ...item.approval, expires_at } } } : state.items,
    touched: { ...state.touched, [id]: event.number },
  };
}

/** Return the turns, of which one goes on if nothing else is asked in it. */
function goOn(state: SessionState, turnId: string | null, approvals: readonly ApprovalState[]): SessionState["turns"] {
  const turn: OpenTurn | undefined = turnId === null ? undefined : state.turns[turnId];
  if (turn?.status !== "waiting" || approvals.some(({ turn_id }) => turn_id === turnId)) return state.turns;
  return { ...state.turns, [turn.id]: { ...turn, status: "running" } };
}
