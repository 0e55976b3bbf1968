import { expect, test, vi } from "vitest";
import type { ApprovalState, Failure } from "@/api/types";
import { markSeen, missedOf, seen } from "./missed";

const expired = (id: string, at: string) => ({ id, expires_at: at }) as ApprovalState;
const failed = (id: string, at: string, code = "model_unavailable") => ({ turn_id: id, failed_at: at, error_code: code }) as Failure;

test("what was missed is listed newest first, once, until it was seen", () => {
  const questions = [expired("q1", "2026-11-18T10:00:00Z"), expired("q2", "2026-11-18T08:00:00+00:00")];
  const failures = [failed("t1", "2026-11-18T09:00:00.5Z"), failed("t2", "2026-11-18T10:00:01Z", "approval_timeout")];
  expect(missedOf(questions, failures, []).map(({ id }) => id)).toEqual(["q1", "t1", "q2"]);
  expect(missedOf(questions, failures, ["t1", "q2"]).map(({ id }) => id)).toEqual(["q1"]);
});

test("what was seen is remembered in the browser, but not without end", () => {
  const stored = new Map<string, string>();
  vi.stubGlobal("localStorage", { setItem: (key: string, value: string) => stored.set(key, value) });
  markSeen(["a", "b"]);
  markSeen(["b"]);
  expect([...stored.values()]).toEqual(['["a","b"]']);
  markSeen(Array.from({ length: 400 }, (_, place) => `t${place}`));
  expect(seen.get()).toHaveLength(300);
  expect(seen.get().at(-1)).toBe("t399");
  vi.unstubAllGlobals();
});
