// One conversation: what was loaded and what happens, in one function. The same entries come out live and after a reload.

import type { ApprovalState, PageTimelineItem, SessionEvent, TurnState } from "@/api/types";
import { applyEvent } from "./events";
import { applyPartialText } from "./partialText";
import { stillSending } from "./sending";
import type { Entry, LiveCall, OpenTurn, SessionAction, SessionState, Snapshot } from "./types";
import { emptySession } from "./types";

const OPEN: readonly string[] = ["queued", "running", "waiting"];

export function reduceSession(state: SessionState, action: SessionAction): SessionState {
  switch (action.type) {
    case "loaded":
      return load(state, action.snapshot);
    case "timeline_loaded":
      return mergeTimeline(state, action.page, action.asOf);
    case "plan_loaded":
      return isOlder(state, action.plan.id, action.asOf)
        ? state
        : { ...state, plans: { ...state.plans, [action.plan.id]: action.plan } };
    case "approvals_loaded":
      return mergeApprovals(state, action.items, action.asOf);
    case "session_loaded":
      return { ...state, session: action.session };
    case "message_replaced":
      return replaceMessage(state, action.message);
    case "sending":
      return { ...state, sending: [...state.sending, { key: action.key, content: action.content, attachments: action.attachments, at: action.at, turnId: null, isDelayed: false }] };
    case "accepted":
      return accept(state, action.key, action.turnId);
    case "send_delayed":
      return { ...state, sending: state.sending.map((each) => (each.key === action.key ? { ...each, isDelayed: true } : each)) };
    case "send_failed":
      return { ...state, sending: state.sending.filter(({ key }) => key !== action.key) };
    case "message_delta":
    case "message_snapshot":
      return applyPartialText(state, action);
    default:
      return applyNumbered(state, action);
  }
}

/** Apply a stored event once: after a reconnection some come again. */
function applyNumbered(state: SessionState, event: SessionEvent): SessionState {
  if (event.number <= state.lastEvent) return state;
  return { ...applyEvent(state, event), lastEvent: event.number };
}

function load(state: SessionState, snapshot: Snapshot): SessionState {
  const turns: Record<string, OpenTurn> = {};
  for (const turn of snapshot.turns) if (OPEN.includes(turn.status)) turns[turn.id] = openTurn(turn);
  const loaded: SessionState = {
    ...emptySession(state.id),
    session: snapshot.session,
    lastEvent: snapshot.lastEvent,
    firstOffset: snapshot.timeline.offset,
    turns,
    approvals: byAge(snapshot.approvals),
    plans: Object.fromEntries(snapshot.plans.map((plan) => [plan.id, plan])),
    sending: state.sending,
  };
  return mergeTimeline(loaded, snapshot.timeline, snapshot.lastEvent);
}

function openTurn({ id, status, agent_id, started_at, continues }: TurnState): OpenTurn {
  return { id, status: status as OpenTurn["status"], agentId: agent_id, phase: null, startedAt: started_at, continues: continues ?? null };
}

/** Take entries of the timeline, except where something newer is known; older pages go before what is there. */
function mergeTimeline(state: SessionState, page: PageTimelineItem, asOf: number): SessionState {
  const items = withoutGone(state, page, asOf);
  for (const item of page.items) if (!isOlder(state, item.id, asOf)) items[item.id] = item as Entry;
  // Calls whose result was known when the page was asked for are in it now.
  const calls: Record<string, LiveCall> = {};
  for (const [key, call] of Object.entries(state.calls)) {
    if (call.returned === null || call.returned > asOf) calls[key] = call;
  }
  return { ...state, items, calls, firstOffset: Math.min(state.firstOffset, page.offset), sending: stillSending(state, items) };
}

/** Return the entries without calls that were just sent when they were loaded, and became a question instead. */
function withoutGone(state: SessionState, page: PageTimelineItem, asOf: number): Record<string, Entry> {
  const isNewest = page.offset + page.items.length >= page.total;
  const first = page.items[0];
  const loaded = new Set(page.items.map(({ id }) => id));
  const isGone = (entry: Entry) =>
    entry.kind === "tool_call" && entry.tool_call.status === "sent" && !loaded.has(entry.id) && !isOlder(state, entry.id, asOf) && (first === undefined || Date.parse(entry.at) >= Date.parse(first.at));
  return Object.fromEntries(Object.entries(state.items).filter(([, entry]) => !(isNewest && isGone(entry))));
}

function isOlder(state: SessionState, id: string, asOf: number): boolean {
  return (state.touched[id] ?? 0) > asOf;
}

function mergeApprovals(state: SessionState, items: readonly ApprovalState[], asOf: number): SessionState {
  const loaded = items.filter(({ id, status }) => status === "pending" && !isOlder(state, id, asOf));
  const newer = state.approvals.filter(({ id }) => isOlder(state, id, asOf));
  return { ...state, approvals: byAge([...loaded, ...newer]) };
}

function byAge(approvals: readonly ApprovalState[]): ApprovalState[] {
  return [...approvals].sort((one, other) => Date.parse(one.created_at) - Date.parse(other.created_at));
}

function replaceMessage(state: SessionState, message: Extract<SessionAction, { type: "message_replaced" }>["message"]): SessionState {
  const item = state.items[message.id];
  if (item?.kind !== "message") return state;
  return { ...state, items: { ...state.items, [message.id]: { ...item, message } } };
}

function accept(state: SessionState, key: string, turnId: string): SessionState {
  const sending = state.sending.map((each) => (each.key === key ? { ...each, turnId } : each));
  const isNew = !(turnId in state.turns) && !state.ended.includes(turnId);
  const turn: OpenTurn = { id: turnId, status: "queued", agentId: null, phase: null, startedAt: null, continues: null };
  const turns = isNew ? { ...state.turns, [turnId]: turn } : state.turns;
  return { ...state, turns, sending: stillSending({ ...state, sending }, state.items) };
}
