import { expect, test } from "vitest";
import { type Shown, filtered, newestFirst } from "./memories";

const memory = (id: string, changes: Partial<Shown>): Shown => ({
  id,
  content: id,
  type: "note",
  success: true,
  task_id: null,
  metadata: {},
  pinned: false,
  created_at: "2026-11-01T00:00:00Z",
  edited_at: null,
  agent_id: 1,
  agent: "agent_coder",
  score: null,
  ...changes,
});

test("pinned memories are first, then the newest; filters keep one agent and kind", () => {
  const all = newestFirst([memory("old", {}), memory("pinned", { pinned: true }), memory("new", { created_at: "2026-11-02T00:00:00Z", agent_id: 2, type: "fact" })]);
  expect(all.map(({ id }) => id)).toEqual(["pinned", "new", "old"]);
  expect(filtered(all, "2", "").map(({ id }) => id)).toEqual(["new"]);
  expect(filtered(all, "", "note").map(({ id }) => id)).toEqual(["pinned", "old"]);
  expect(filtered(all, "2", "note")).toEqual([]);
});
