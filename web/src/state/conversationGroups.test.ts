import { expect, test } from "vitest";
import type { Session } from "@/api/types";
import { groupsOf } from "./conversationGroups";

const session = (id: string, day: number, change: Partial<Session> = {}) =>
  ({ session_id: id, updated_at: `2026-01-0${day}T10:00:00Z`, pinned: false, state: "idle", ...change }) as Session;

test("what waits comes first, then what is pinned, then the days from the newest on", () => {
  const sessions = [session("old", 1), session("pinned", 1, { pinned: true }), session("asks", 1, { state: "waiting", pinned: true }), session("new", 3), session("newer", 3)];
  const groups = groupsOf(sessions, (at) => at.slice(0, 10));
  expect(groups.map(({ kind, sessions: of }) => [kind, of.map(({ session_id }) => session_id)])).toEqual([
    ["waiting", ["asks"]],
    ["pinned", ["pinned"]],
    ["day", ["new", "newer"]],
    ["day", ["old"]],
  ]);
});
