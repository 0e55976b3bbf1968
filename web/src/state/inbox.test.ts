import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { inbox, watchInbox } from "./inbox";
import { setPreference } from "./preferences";

const page = { hidden: false, addEventListener: () => undefined, removeEventListener: () => undefined };
const requests: { limit: string | null; signal: AbortSignal }[] = [];
const looks = () => requests.filter(({ limit }) => limit === "1").length;
let isAnswered = true;

beforeEach(() => {
  vi.useFakeTimers();
  requests.length = 0;
  isAnswered = true;
  page.hidden = false;
  vi.stubGlobal("document", page);
  vi.stubGlobal("location", { origin: "http://localhost" });
  vi.stubGlobal("fetch", (url: string, { signal }: { signal: AbortSignal }) => {
    requests.push({ limit: new URL(url, "http://localhost").searchParams.get("limit"), signal });
    return isAnswered ? Promise.resolve(new Response(JSON.stringify({ items: [], total: 0 }))) : new Promise(() => undefined);
  });
});

afterEach(() => {
  setPreference("notifications", false);
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test.each([
  ["granted", 2],
  ["denied", 0],
] as const)("a hidden page looks seldom, and only if notices are %s", async (permission, times) => {
  vi.stubGlobal("Notification", { permission });
  setPreference("notifications", true);
  page.hidden = true;
  const stop = watchInbox();
  await vi.advanceTimersByTimeAsync(59_000);
  stop();
  expect(looks()).toBe(times);
});

test("a page that is seen looks every five seconds", async () => {
  const stop = watchInbox();
  await vi.advanceTimersByTimeAsync(21_000);
  stop();
  expect(looks()).toBe(4);
});

test("a load ends with the sign-in that it belongs to", async () => {
  isAnswered = false;
  const stop = watchInbox();
  await vi.advanceTimersByTimeAsync(1_000);
  stop();
  expect(requests.map(({ signal }) => signal.aborted)).toEqual([true]);
  expect(inbox.get().isLoaded).toBe(false);
});
