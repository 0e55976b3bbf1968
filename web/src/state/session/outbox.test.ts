import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Outgoing, Outbox, type Watcher } from "./outbox";

const stored = new Map<string, string>();
const answers: (() => Promise<Response> | Response)[] = [];
const bodies: { content: string; idempotency_key: string }[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  stored.clear();
  answers.length = bodies.length = 0;
  vi.stubGlobal("localStorage", { getItem: (key: string) => stored.get(key) ?? null, setItem: (key: string, value: string) => stored.set(key, value), removeItem: (key: string) => stored.delete(key) });
  vi.stubGlobal("fetch", (_: string, { body }: { body: string }) => {
    bodies.push(JSON.parse(body) as (typeof bodies)[number]);
    return Promise.resolve((answers.shift() ?? accepted)());
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const accepted = () => Response.json({ turn_id: `turn ${bodies.length}` }, { status: 202 });
const lost = () => Promise.reject(new TypeError("lost"));
const refused = () => Response.json({ detail: "Too many.", code: "session_busy" }, { status: 429 });

function watched(outbox: Outbox, isOpen = true) {
  const heard: string[] = [];
  const tell = (what: string) => (message: Outgoing) => void heard.push(`${what} ${message.content}`);
  const watcher: Watcher = { isOpen: () => isOpen, onAdded: tell("added"), onAccepted: tell("accepted"), onDelayed: tell("delayed"), onRefused: tell("refused") };
  outbox.watch(watcher);
  return heard;
}

test("messages are sent in order, each until it is accepted, with one key", async () => {
  answers.push(lost, lost);
  const outbox = new Outbox("s");
  const heard = watched(outbox);
  outbox.add("one", null, []);
  outbox.add("two", "agent_coder", []);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(heard).toEqual(["added one", "added two", "delayed one", "delayed one", "accepted one", "accepted two"]);
  expect(bodies.map(({ content }) => content)).toEqual(["one", "one", "one", "two"]);
  expect(new Set(bodies.slice(0, 3).map((body) => body.idempotency_key)).size).toBe(1);
  expect(stored.size).toBe(0);
});

test("the same words twice are two messages", async () => {
  const outbox = new Outbox("s");
  outbox.add("yes", null, []);
  outbox.add("yes", null, []);
  await vi.advanceTimersByTimeAsync(10);
  expect(new Set(bodies.map((body) => body.idempotency_key)).size).toBe(2);
});

test("a page that was left goes on with what it could not send", async () => {
  answers.push(lost, lost);
  new Outbox("s").add("kept", null, []);
  await vi.advanceTimersByTimeAsync(0);
  const heard = watched(new Outbox("s"));
  await vi.advanceTimersByTimeAsync(10_000);
  expect(heard[0]).toBe("added kept");
  expect(heard.at(-1)).toBe("accepted kept");
  expect(new Set(bodies.map((body) => body.idempotency_key)).size).toBe(1);
});

test("a refused message comes back, and waits for somebody to take it", async () => {
  answers.push(refused, refused);
  const outbox = new Outbox("s");
  watched(outbox, false);
  outbox.add("no", null, []);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(stored.size).toBe(1);
  const heard = watched(outbox);
  await vi.advanceTimersByTimeAsync(0);
  expect(heard).toEqual(["added no", "refused no"]);
  expect(stored.size).toBe(0);
});

test("waking tries at once", async () => {
  answers.push(lost);
  const outbox = new Outbox("s");
  const heard = watched(outbox);
  outbox.add("now", null, []);
  await vi.advanceTimersByTimeAsync(1);
  outbox.wake();
  await vi.advanceTimersByTimeAsync(1);
  expect(heard.at(-1)).toBe("accepted now");
});
