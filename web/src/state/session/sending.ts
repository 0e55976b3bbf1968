// Messages that were sent and are not stored yet.

import type { Entry, SessionState } from "./types";

/** Return the messages on their way whose stored form is not there yet. */
export function stillSending(state: SessionState, items: Readonly<Record<string, Entry>>): SessionState["sending"] {
  if (!state.sending.length) return state.sending;
  const arrived = new Set(Object.values(items).flatMap((item) => (item.kind === "message" && item.message.role === "user" ? [item.turn_id] : [])));
  const left = state.sending.filter(({ turnId }) => turnId === null || !arrived.has(turnId));
  return left.length === state.sending.length ? state.sending : left;
}
