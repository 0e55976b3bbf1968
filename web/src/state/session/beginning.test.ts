import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type * as beginning from "./beginning";

const stored = new Map<string, string>();
const answers: (() => Promise<Response> | Response)[] = [];
const asked: { path: string; body: { idempotency_key: string; content?: string; project_id?: number } }[] = [];

const session = () => Response.json({ session_id: "s1", project_id: 7 }, { status: 201 });
const accepted = () => Response.json({ turn_id: "t" }, { status: 202 });
const lost = () => Promise.reject(new TypeError("lost"));

beforeEach(() => {
  vi.useFakeTimers();
  vi.resetModules();
  stored.clear();
  answers.length = asked.length = 0;
  vi.stubGlobal("localStorage", { getItem: (key: string) => stored.get(key) ?? null, setItem: (key: string, value: string) => stored.set(key, value), removeItem: (key: string) => stored.delete(key) });
  vi.stubGlobal("fetch", (path: string, { body }: { body: string }) => {
    asked.push({ path, body: JSON.parse(body) as (typeof asked)[number]["body"] });
    return Promise.resolve((answers.shift() ?? (path.endsWith("/message") ? accepted : session))());
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Return the module as a page that was just opened has it. */
async function opened(): Promise<typeof beginning> {
  vi.resetModules();
  return import("./beginning");
}

test("what is written before there is a conversation is sent once, in order, to one conversation", async () => {
  answers.push(lost, lost);
  const page = await opened();
  page.beginLater(7, "ask", "k1", "one", null);
  page.beginLater(7, "ask", "k2", "two", "agent_coder");
  expect(page.beginnings.get().map(({ messages }) => messages.length)).toEqual([2]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(new Set(asked.slice(0, 3).map(({ body }) => body.idempotency_key))).toEqual(new Set(["k1"]));
  expect(asked.slice(3).map(({ path, body }) => [path.endsWith("/my/chat/s1/message"), body.content])).toEqual([
    [true, "one"],
    [true, "two"],
  ]);
  expect([page.beginnings.get(), page.begun.get()?.session_id, stored.size]).toEqual([[], "s1", 0]);
});

test("a page that was left goes on with what it had begun, and waking tries at once", async () => {
  answers.push(lost, lost);
  (await opened()).beginLater(7, "auto", "k1", "kept", null);
  await vi.advanceTimersByTimeAsync(0);
  const page = await opened();
  expect(page.beginnings.get()[0]?.messages[0]?.content).toBe("kept");
  page.resumeBeginnings();
  await vi.advanceTimersByTimeAsync(1);
  page.wakeBeginnings();
  await vi.advanceTimersByTimeAsync(1);
  expect(page.begun.get()?.session_id).toBe("s1");
});

test("what the server refuses goes back to the draft, and what waits behind it is sent", async () => {
  answers.push(() => Response.json({ code: "project_not_found", detail: "Gone." }, { status: 404 }));
  const page = await opened();
  page.beginLater(8, "auto", "k1", "no", null);
  page.beginLater(7, "auto", "k2", "yes", null);
  await vi.advanceTimersByTimeAsync(10);
  expect(stored.get("artel.draft.8.new")).toBe("no");
  expect([page.refusedBeginning.get()?.projectId, page.begun.get()?.project_id]).toEqual([8, 7]);
});
