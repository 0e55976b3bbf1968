// What a conversation shows, in order. Entries of a turn stand together, whatever was said meanwhile: an answer comes
// after its question, also when more questions wait.

import { memoize } from "../store";
import { planOfTurn } from "./plans";
import type { Draft, Entry, LiveCall, Sending, SessionState } from "./types";

export type Row =
  | { key: string; kind: "entry"; entry: Entry }
  | { key: string; kind: "call"; call: LiveCall }
  /** The text changes often: read it by id with `draftOf`. */
  | { key: string; kind: "draft"; messageId: string; turnId: string | null; continues: string | null }
  | { key: string; kind: "sending"; sending: Sending };

const RANK: Record<Entry["kind"], number> = { message: 0, notice: 0, plan: 1, approval: 2, tool_call: 3, file_change: 3 };

/** Return a selector of a conversation's rows: the same array as long as no row comes, goes or changes. */
export function createRows(): (state: SessionState) => readonly Row[] {
  const arranged = memoize(arrange);
  let answers: readonly Draft[] = [];
  return (state) => {
    const written = answerDrafts(state);
    // Only which drafts there are matters for the order: a new text alone makes no new rows.
    const isSame = written.length === answers.length && written.every(({ messageId }, place) => messageId === answers[place]?.messageId);
    if (!isSame) answers = written;
    return arranged(state.items, state.calls, state.turns, state.sending, answers, state.approvals);
  };
}

/** Return the answers that are being written; results of a plan's tasks are not among them, unless it has only one. */
export function answerDrafts(state: SessionState): Draft[] {
  return Object.values(state.drafts).filter((draft) => !isTaskResult(state, draft));
}

/** Return what the tasks of a turn's plan are writing, by task id. */
export function taskDrafts(state: SessionState, turnId: string): Record<string, Draft> {
  const found = Object.values(state.drafts).filter((draft) => draft.turnId === turnId && isTaskResult(state, draft));
  return Object.fromEntries(found.map((draft) => [draft.taskId ?? "", draft]));
}

function isTaskResult(state: SessionState, { taskId, turnId }: Draft): boolean {
  if (taskId === null || taskId === turnId) return false;
  return (planOfTurn(state, turnId)?.tasks.length ?? 1) > 1;
}

/** Return the turn of the newest notice, which tells why an answer is missing; null if there is none. */
export function lastFailure(items: SessionState["items"]): string | null {
  let last: Entry | null = null;
  for (const entry of Object.values(items)) if (entry.kind === "notice" && (last === null || momentOf(entry.at) > momentOf(last.at))) last = entry;
  return last?.turn_id ?? null;
}

function arrange(
  items: SessionState["items"],
  calls: SessionState["calls"],
  turns: SessionState["turns"],
  sending: SessionState["sending"],
  answers: readonly Draft[],
  approvals: SessionState["approvals"],
): readonly Row[] {
  const running = new Set(Object.values(calls).filter(({ returned }) => returned === null).map(({ turnId }) => turnId));
  // A call that was sent in an open turn is shown as a live one, and may still turn into a question.
  const isShown = (entry: Entry) => !(entry.kind === "tool_call" && entry.tool_call.status === "sent" && running.has(entry.turn_id) && (entry.turn_id ?? "") in turns);
  const entries = Object.values(items).filter(isShown);
  const firstAt = new Map<string, string>();
  const moments = new Map(entries.map(({ id, at }) => [id, momentOf(at)]));
  const momentBy = (entry: Entry) => moments.get(entry.id) ?? "";
  for (const entry of entries) {
    const moment = momentBy(entry);
    if (entry.turn_id !== null && moment < (firstAt.get(entry.turn_id) ?? "~")) firstAt.set(entry.turn_id, moment);
  }
  const groupOf = (entry: Entry) => (entry.turn_id === null ? momentBy(entry) : (firstAt.get(entry.turn_id) ?? ""));
  entries.sort(
    (one, other) =>
      compare(groupOf(one), groupOf(other)) ||
      compare(one.turn_id ?? "", other.turn_id ?? "") ||
      compare(momentBy(one), momentBy(other)) ||
      RANK[one.kind] - RANK[other.kind] ||
      compare(one.id, other.id),
  );
  const rows: Row[] = entries.map((entry) => ({ key: entry.id, kind: "entry", entry }));
  // A call that waits for the user's answer has not been made: the question tells of it.
  const isAsked = (call: LiveCall) => call.returned === null && approvals.some(({ turn_id, tool }) => turn_id === call.turnId && tool === call.tool);
  for (const call of Object.values(calls)) if (!isAsked(call)) insertInTurn(rows, call.turnId, { key: call.key, kind: "call", call });
  for (const { messageId, turnId } of answers) insertInTurn(rows, turnId, { key: messageId, kind: "draft", messageId, turnId, continues: turns[turnId ?? ""]?.continues ?? null });
  for (const each of sending) rows.push({ key: each.key, kind: "sending", sending: each });
  return rows;
}

/** Return a time that compares as text to the microsecond; the server writes zones and fractions in two ways. */
function momentOf(at: string): string {
  const [, seconds = at, fraction = ""] = /^(\d+-\d+-\d+T\d+:\d+:\d+)(?:\.(\d+))?/.exec(at) ?? [];
  return `${seconds}.${fraction.padEnd(6, "0")}`;
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** Put a row after the last one of its turn. */
function insertInTurn(rows: Row[], turnId: string | null, row: Row): void {
  const last = turnId === null ? -1 : rows.findLastIndex((each) => turnOf(each) === turnId);
  if (last < 0) rows.push(row);
  else rows.splice(last + 1, 0, row);
}

function turnOf(row: Row): string | null {
  if (row.kind === "entry") return row.entry.turn_id;
  if (row.kind === "call") return row.call.turnId;
  return row.kind === "draft" ? row.turnId : null;
}
