// What went wrong while nobody looked: questions that expired, and conversations whose last turn failed.

import type { ApprovalState, Failure } from "@/api/types";
import { SEEN_FAILURES as KEY } from "./preferences";
import { PLAN_EXPIRED } from "./session/plans";
import { createCell } from "./store";

const MOST = 300;

export type Missed = { kind: "expired"; id: string; at: string; approval: ApprovalState } | { kind: "failed"; id: string; at: string; failure: Failure };

/** Ids of turns and questions that the user has seen in this browser. */
export const seen = createCell<readonly string[]>(read());

/** Return what was missed, newest first; the question about a plan that expired is in the list itself. */
export function missedOf(expired: readonly ApprovalState[], failures: readonly Failure[], known: readonly string[]): Missed[] {
  const missed: Missed[] = [
    ...expired.map((approval) => ({ kind: "expired", id: approval.id, at: approval.expires_at, approval }) as const),
    ...failures.filter(({ error_code }) => error_code !== PLAN_EXPIRED).map((failure) => ({ kind: "failed", id: failure.turn_id, at: failure.failed_at, failure }) as const),
  ];
  return missed.filter(({ id }) => !known.includes(id)).sort((one, other) => Date.parse(other.at) - Date.parse(one.at));
}

/** Remember what the user has seen. */
export function markSeen(ids: readonly string[]): void {
  const added = ids.filter((id) => !seen.get().includes(id));
  if (!added.length) return;
  seen.set((before) => [...before, ...added].slice(-MOST));
  try {
    localStorage.setItem(KEY, JSON.stringify(seen.get()));
  } catch {
    // A browser that stores nothing: it is remembered until the page is left.
  }
}

function read(): readonly string[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(stored) ? stored.filter((id) => typeof id === "string") : [];
  } catch {
    return [];
  }
}
