// Undo and redo in the timeline: what can still be done about one.

import type { Entry, EntryOf, SessionState } from "./types";

type Change = EntryOf<"file_change">;

export interface SwapState {
  /** What this undo has put back is still so, and can be changed again. */
  canRedo: boolean;
  /** Files that were changed since, and not put back later. */
  conflicts: readonly string[];
}

/** Return whether an entry is of the user, who undoes or redoes what an agent has changed. */
export function isSwap({ file_change: { action } }: Change): boolean {
  return action === "undo" || action === "redo";
}

export function isAgentChange(entry: Entry): entry is Change {
  return entry.kind === "file_change" && !isSwap(entry);
}

/** Return what can be done about an undo or redo; only the last one of a file counts. */
export function swapState(items: SessionState["items"], swap: Change): SwapState {
  const ofTurn = Object.values(items).filter((entry): entry is Change => entry.kind === "file_change" && entry.turn_id === swap.turn_id);
  const later = ofTurn.filter((entry) => isSwap(entry) && Date.parse(entry.at) > Date.parse(swap.at));
  const isLast = (path: string) => !later.some((entry) => entry.file_change.files.some((file) => file.path === path));
  const isUndone = (path: string) => ofTurn.some((entry) => isAgentChange(entry) && entry.file_change.path === path && entry.file_change.undone);
  if (swap.file_change.action !== "undo") return { canRedo: false, conflicts: [] };
  const last = swap.file_change.files.filter(({ path }) => isLast(path));
  return {
    canRedo: last.some(({ path, outcome }) => ["restored", "removed"].includes(outcome) && isUndone(path)),
    conflicts: last.filter(({ path, outcome }) => outcome === "changed_since" && !isUndone(path)).map(({ path }) => path),
  };
}
