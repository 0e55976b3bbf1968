// What the timeline shows, made of rows: tool calls that follow each other are one line, a change carries its decision,
// an answer and what continues it are one, and what was sent again later is folded.

import { memoize } from "../store";
import { PLAN_EXPIRED, isPlanExpired } from "./plans";
import type { Row } from "./rows";
import type { EntryOf, LiveCall, Sending, SessionState } from "./types";

type MessageEntry = EntryOf<"message">;

export type Block =
  | { key: string; kind: "user"; entry: MessageEntry }
  /** Several parts if it was cut off and continued; `draftId` is the part that is being written. */
  | { key: string; kind: "answer"; parts: readonly MessageEntry[]; draftId: string | null; turnId: string | null }
  | { key: string; kind: "activity"; calls: readonly EntryOf<"tool_call">[]; live: readonly LiveCall[] }
  | { key: string; kind: "change"; entry: EntryOf<"file_change">; decision: EntryOf<"approval"> | null }
  | { key: string; kind: "decision"; entry: EntryOf<"approval"> }
  | { key: string; kind: "plan"; entry: EntryOf<"plan"> }
  /** `isCutOff`: the partial answer of its turn can be continued. */
  | { key: string; kind: "notice"; entry: EntryOf<"notice">; isCutOff: boolean }
  | { key: string; kind: "sending"; sending: Sending }
  /** A message that was sent again later, with all that came of it. */
  | { key: string; kind: "earlier"; blocks: readonly Block[] };

/** Return a selector of the timeline's blocks; the same array as long as nothing in it changes but growing text. */
export function createBlocks(selectRows: (state: SessionState) => readonly Row[]): (state: SessionState) => readonly Block[] {
  const build = memoize((rows: readonly Row[], turns: SessionState["turns"]) => blocksOf(rows, turns));
  return (state) => build(selectRows(state), state.turns);
}

export function blocksOf(rows: readonly Row[], turns: SessionState["turns"]): readonly Block[] {
  const index = indexOf(rows);
  const { joined, retried } = index;
  const blocks: Block[] = [];
  const answers = new Map<string, number>(); // ids of answers and of their continuations, and where they are
  let folded: Block[] = [];
  const add = (row: Row, to: Block[]) => {
    const block = blockOf(row, to, index, turns);
    if (block) to.push(block);
  };
  for (const row of rows) {
    const turnId = turnOf(row);
    if (turnId !== null && retried.has(turnId)) {
      add(row, folded);
      continue;
    }
    folded = closeFold(blocks, folded);
    const before = continuedBy(row, joined, answers);
    if (before !== undefined) {
      const answer = blocks[before];
      if (answer?.kind === "answer") blocks[before] = extended(answer, row);
      answers.set(row.key, before);
      continue;
    }
    add(row, blocks);
    if (blocks.at(-1)?.kind === "answer") answers.set(row.key, blocks.length - 1);
  }
  closeFold(blocks, folded);
  return blocks;
}

function closeFold(blocks: Block[], folded: Block[]): Block[] {
  const [first] = folded;
  if (first) blocks.push({ key: `earlier ${first.key}`, kind: "earlier", blocks: folded });
  return [];
}

interface Index {
  /** Decisions that a change tells, by id. */
  decisions: ReadonlyMap<string, EntryOf<"approval">>;
  /** Turns that go on with an answer, and the answer's message. */
  joined: ReadonlyMap<string, string>;
  retried: ReadonlySet<string>;
  /** Turns with a partial answer: whether it was continued. */
  partial: ReadonlyMap<string, boolean>;
}

function indexOf(rows: readonly Row[]): Index {
  const approvals = new Map<string, EntryOf<"approval">>();
  const told = new Set<string>();
  const joined = new Map<string, string>();
  const retried = new Set<string>();
  const partial = new Map<string, boolean>();
  for (const row of rows) {
    if (row.kind !== "entry") continue;
    const { entry } = row;
    if (entry.kind === "approval") approvals.set(entry.id, entry);
    if (entry.kind === "file_change" && entry.file_change.approval_id !== null) told.add(entry.file_change.approval_id);
    if (entry.kind !== "message" || entry.turn_id === null) continue;
    if (entry.message.status === "retried") retried.add(entry.turn_id);
    if (["cut_off", "continued"].includes(entry.message.status)) partial.set(entry.turn_id, entry.message.status === "continued");
    if (entry.message.continues) joined.set(entry.turn_id, entry.message.continues);
  }
  return { decisions: new Map([...approvals].filter(([id]) => told.has(id))), joined, retried, partial };
}

/** Return where the answer is that a row goes on with. */
function continuedBy(row: Row, joined: Index["joined"], answers: ReadonlyMap<string, number>): number | undefined {
  if (row.kind === "draft") return row.continues === null ? undefined : answers.get(row.continues);
  if (row.kind !== "entry" || row.entry.kind !== "message" || row.entry.message.role === "user") return undefined;
  const before = row.entry.turn_id === null ? undefined : joined.get(row.entry.turn_id);
  return before === undefined ? undefined : answers.get(before);
}

function extended(answer: Extract<Block, { kind: "answer" }>, row: Row): Block {
  if (row.kind === "draft") return { ...answer, draftId: row.messageId, turnId: row.turnId };
  if (row.kind !== "entry" || row.entry.kind !== "message") return answer;
  return { ...answer, parts: [...answer.parts, row.entry], draftId: null, turnId: row.entry.turn_id };
}

function blockOf(row: Row, before: Block[], index: Index, turns: SessionState["turns"]): Block | null {
  const { key } = row;
  switch (row.kind) {
    case "sending":
      return hasOpen(turns, row.sending.turnId) ? null : { key, kind: "sending", sending: row.sending };
    case "draft":
      return { key, kind: "answer", parts: [], draftId: row.messageId, turnId: row.turnId };
    case "call":
      return activity(before, key, [], [row.call]);
    case "entry":
      return blockOfEntry(row, before, index, turns);
  }
}

function blockOfEntry({ key, entry }: Extract<Row, { kind: "entry" }>, before: Block[], index: Index, turns: SessionState["turns"]): Block | null {
  switch (entry.kind) {
    case "message":
      if (entry.message.role !== "user") return { key, kind: "answer", parts: [entry], draftId: null, turnId: entry.turn_id };
      // Messages that wait are shown at the composer.
      return waitsBehind(turns, entry.turn_id) ? null : { key, kind: "user", entry };
    case "tool_call":
      return activity(before, key, [entry], []);
    case "file_change":
      return { key, kind: "change", entry, decision: index.decisions.get(entry.file_change.approval_id ?? "") ?? null };
    case "approval":
      return index.decisions.has(entry.id) || entry.approval.status === "pending" ? null : { key, kind: "decision", entry };
    case "plan":
      return entry.plan.tasks < 2 && !isPlanExpired(entry.plan) ? null : { key, kind: "plan", entry }; // no ceremony for one task
    case "notice":
      if (entry.notice.code === PLAN_EXPIRED) return null; // the line of the plan says so
      // Nothing is missing any more from an answer that was continued.
      return index.partial.get(entry.turn_id ?? "") === true ? null : { key, kind: "notice", entry, isCutOff: index.partial.has(entry.turn_id ?? "") };
  }
}

/** Return whether a turn waits behind another one; one that begins in a moment does not. Ids grow with time. */
function waitsBehind(turns: SessionState["turns"], id: string | null): boolean {
  if (id === null || turns[id]?.status !== "queued") return false;
  return Object.values(turns).some((other) => other.id !== id && (other.status !== "queued" || other.id < id));
}

function hasOpen(turns: SessionState["turns"], besides: string | null): boolean {
  return Object.keys(turns).some((id) => id !== besides);
}

/** Add calls to the line before, if that is one of calls of the same turn; else return a new line. */
function activity(before: Block[], key: string, calls: readonly EntryOf<"tool_call">[], live: readonly LiveCall[]): Block | null {
  const last = before.at(-1);
  const turnId = calls[0]?.turn_id ?? live[0]?.turnId ?? null;
  if (last?.kind !== "activity" || turnOfLine(last) !== turnId) return { key, kind: "activity", calls, live };
  before[before.length - 1] = { ...last, calls: [...last.calls, ...calls], live: [...last.live, ...live] };
  return null;
}

function turnOfLine({ calls, live }: Extract<Block, { kind: "activity" }>): string | null {
  return calls[0]?.turn_id ?? live[0]?.turnId ?? null;
}

function turnOf(row: Row): string | null {
  if (row.kind === "entry") return row.entry.turn_id;
  if (row.kind === "call") return row.call.turnId;
  return row.kind === "draft" ? row.turnId : null;
}

export interface Waiting {
  messages: readonly MessageEntry[];
  /** Sent, and not stored yet. */
  sending: readonly Sending[];
}

/** Return a selector of the messages that wait for their turn, oldest first; they are shown at the composer. */
export function createWaiting(): (state: SessionState) => Waiting {
  const build = memoize((items: SessionState["items"], turns: SessionState["turns"], sending: SessionState["sending"]): Waiting => {
    if (!Object.keys(turns).length) return { messages: [], sending: [] };
    const isWaiting = (item: SessionState["items"][string]): item is MessageEntry =>
      item.kind === "message" && item.message.role === "user" && waitsBehind(turns, item.turn_id);
    const messages = Object.values(items).filter(isWaiting);
    return {
      messages: messages.toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at)),
      sending: sending.filter(({ turnId }) => hasOpen(turns, turnId)),
    };
  });
  return (state) => build(state.items, state.turns, state.sending);
}
