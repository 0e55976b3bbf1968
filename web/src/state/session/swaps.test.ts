import { expect, test } from "vitest";
import { swapState } from "./swaps";
import type { Entry, EntryOf } from "./types";

let second = 0;
function change(action: string, details: object, turn = "t"): EntryOf<"file_change"> {
  const id = `c${++second}`;
  const at = new Date(Date.UTC(2026, 0, 1, 10, 0, second)).toISOString();
  return { id, kind: "file_change", at, turn_id: turn, text: "", file_change: { action, path: "a", files: [], undone: false, ...details } } as unknown as EntryOf<"file_change">;
}
const itemsOf = (...entries: Entry[]) => Object.fromEntries(entries.map((entry) => [entry.id, entry]));
const restored = { files: [{ path: "a", outcome: "restored" }] };
const changedSince = { files: [{ path: "a", outcome: "changed_since" }] };

test("what was put back can be redone, until it was", () => {
  const undo = change("undo", restored);
  expect(swapState(itemsOf(change("write", { undone: true }), undo), undo)).toEqual({ canRedo: true, conflicts: [] });
  const [redo, again] = [change("redo", restored), change("undo", restored)];
  const items = itemsOf(change("write", { undone: true }), undo, redo, again);
  expect([undo, redo, again].map((swap) => swapState(items, swap).canRedo)).toEqual([false, false, true]);
});

test("an undo of another turn does not count", () => {
  const [undo, other] = [change("undo", restored), change("undo", restored, "u")];
  expect(swapState(itemsOf(change("write", { undone: true }), undo, other), undo).canRedo).toBe(true);
});

test("a file that was changed since is a conflict, until it was put back anyway", () => {
  const undo = change("undo", changedSince);
  expect(swapState(itemsOf(change("write", {}), undo), undo)).toEqual({ canRedo: false, conflicts: ["a"] });
  const forced = change("undo", restored);
  const items = itemsOf(change("write", { undone: true }), undo, forced);
  expect(swapState(items, undo).conflicts).toEqual([]);
  expect(swapState(items, forced).canRedo).toBe(true);
});
