// The state of one open conversation, and what changes it.

import type {
  ApprovalState,
  Attachment,
  PageTimelineItem,
  Session,
  SessionStreamItem,
  TimelineItem,
  TurnState,
  UsageShown,
  WorkflowState,
} from "@/api/types";

type Kind = TimelineItem["kind"];
/** An entry of the timeline whose details are those of its kind. */
export type Entry = { [K in Kind]: Omit<TimelineItem, Kind | "kind"> & { kind: K } & Record<K, NonNullable<TimelineItem[K]>> }[Kind];
export type EntryOf<K extends Kind> = Extract<Entry, { kind: K }>;

/** An answer, or the result of a plan's task, that is being written. */
export interface Draft {
  messageId: string;
  turnId: string | null;
  taskId: string | null;
  /** Number of the last piece in `text`. */
  n: number;
  text: string;
}

/** A tool call as events tell it, until the timeline has it with its arguments. */
export interface LiveCall {
  key: string;
  turnId: string | null;
  taskId: string;
  agentId: number;
  tool: string;
  at: string;
  /** Number of the event with its result; null while it runs. */
  returned: number | null;
  success: boolean | null;
  error: string | null;
}

/** A turn that is not over. */
export interface OpenTurn {
  id: string;
  status: "queued" | "running" | "waiting";
  agentId: number | null;
  /** What it is doing, such as `planning`. */
  phase: string | null;
  startedAt: string | null;
  /** Message of a cut-off answer that it goes on with. */
  continues: string | null;
}

/** A message on its way to the server. */
export interface Sending {
  key: string;
  content: string;
  attachments: readonly Attachment[];
  at: string;
  /** Set when the server has accepted it; its event may still be under way. */
  turnId: string | null;
  /** The server could not be reached: it is sent as soon as it can. */
  isDelayed: boolean;
}

export interface SessionState {
  id: string;
  session: Session | null;
  /** Number of the newest event that was applied: earlier ones are doubles. */
  lastEvent: number;
  items: Readonly<Record<string, Entry>>;
  /** Position of the oldest loaded entry in the whole timeline: 0 means that all is loaded. */
  firstOffset: number;
  drafts: Readonly<Record<string, Draft>>;
  calls: Readonly<Record<string, LiveCall>>;
  turns: Readonly<Record<string, OpenTurn>>;
  /** Turns that have ended: what still comes of them is dropped. */
  ended: readonly string[];
  /** Questions without an answer, oldest first. */
  approvals: readonly ApprovalState[];
  plans: Readonly<Record<string, WorkflowState>>;
  usage: Readonly<Record<string, UsageShown>>;
  sending: readonly Sending[];
  /** For entries and plans: the newest event that changed them. What was loaded before that is older. */
  touched: Readonly<Record<string, number>>;
}

/** What is loaded when a conversation is opened, besides its timeline. */
export interface Snapshot {
  session: Session;
  lastEvent: number;
  timeline: PageTimelineItem;
  turns: readonly TurnState[];
  approvals: readonly ApprovalState[];
  plans: readonly WorkflowState[];
}

export type SessionAction =
  | SessionStreamItem
  | { type: "loaded"; snapshot: Snapshot }
  /** `asOf` is the newest event that was known when the request was sent. */
  | { type: "timeline_loaded"; page: PageTimelineItem; asOf: number }
  | { type: "plan_loaded"; plan: WorkflowState; asOf: number }
  | { type: "approvals_loaded"; items: readonly ApprovalState[]; asOf: number }
  | { type: "session_loaded"; session: Session }
  | { type: "message_replaced"; message: NonNullable<TimelineItem["message"]> }
  | { type: "sending"; key: string; content: string; attachments: readonly Attachment[]; at: string }
  | { type: "accepted"; key: string; turnId: string }
  | { type: "send_delayed"; key: string }
  | { type: "send_failed"; key: string };

export function emptySession(id: string): SessionState {
  return {
    id,
    session: null,
    lastEvent: 0,
    items: {},
    firstOffset: 0,
    drafts: {},
    calls: {},
    turns: {},
    ended: [],
    approvals: [],
    plans: {},
    usage: {},
    sending: [],
    touched: {},
  };
}
