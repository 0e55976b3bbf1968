// Answers that are being written. Deltas are numbered by `n`; a snapshot is all that was written up to its `n`, which
// begins anew after a pause, and replaces what is there.

import type { MessageDelta, MessageSnapshot } from "@/api/types";
import type { Draft, SessionState } from "./types";

export function applyPartialText(state: SessionState, piece: MessageDelta | MessageSnapshot): SessionState {
  const { message_id: messageId, turn_id: turnId, task_id: taskId, n, text } = piece;
  if (turnId !== null && state.ended.includes(turnId)) return state;
  if (state.items[messageId]) return state; // the whole message is there
  const before = state.drafts[messageId];
  const isWhole = piece.type === "message_snapshot";
  if (!isWhole && before && n <= before.n) return state;
  const draft: Draft = { messageId, turnId, taskId, n, text: isWhole ? text : (before?.text ?? "") + text };
  return { ...state, drafts: { ...state.drafts, [messageId]: draft } };
}

/** Return the drafts without those of a turn. */
export function withoutDrafts(drafts: SessionState["drafts"], turnId: string | null): SessionState["drafts"] {
  const left = Object.entries(drafts).filter(([, draft]) => draft.turnId !== turnId);
  return left.length === Object.keys(drafts).length ? drafts : Object.fromEntries(left);
}
