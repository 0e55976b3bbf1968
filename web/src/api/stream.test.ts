import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createEventParser } from "./eventParser";
import { type LineState, follow } from "./stream";

interface Line {
  write(text: string): void;
  close(): void;
}

let lines: Line[];
let requests: { after: string | undefined; isAborted: () => boolean }[];
let statuses: number[];
let page: EventTarget & { hidden: boolean };

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(Math, "random").mockReturnValue(0.9); // pauses are 1.2 times as long
  [lines, requests, statuses] = [[], [], []];
  page = Object.assign(new EventTarget(), { hidden: false });
  vi.stubGlobal("document", page);
  vi.stubGlobal("window", new EventTarget());
  vi.stubGlobal("fetch", (_url: string, { headers, signal }: { headers: Record<string, string>; signal: AbortSignal }) => {
    requests.push({ after: headers["Last-Event-ID"], isAborted: () => signal.aborted });
    const status = statuses.shift() ?? 200;
    if (status !== 200) return Promise.resolve(new Response(JSON.stringify({ detail: "no", code: "x" }), { status }));
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        signal.addEventListener("abort", () => controller.error(signal.reason));
        lines.push({ write: (text) => controller.enqueue(new TextEncoder().encode(text)), close: () => controller.close() });
      },
    });
    return Promise.resolve(new Response(body));
  });
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const event = (number: number, text: string) => `id: ${number}\nevent: said\ndata: ${JSON.stringify({ text })}\n\n`;

function start(after: number | null = 0) {
  const heard: unknown[] = [];
  const states: LineState[] = [];
  const stop = new AbortController();
  const refused = vi.fn();
  const done = follow<unknown>("/events", {
    after,
    signal: stop.signal,
    onItems: (items) => heard.push(...items),
    onLine: (state) => states.at(-1) === state || states.push(state),
    onRefused: refused,
  });
  return { heard, states, stop, refused, done };
}

const turn = (ms = 0) => vi.advanceTimersByTimeAsync(ms);

test("a frame may come in pieces, and comments are no events", () => {
  const parser = createEventParser();
  expect(parser.push(": still here\n\nid: 7\nevent: sa")).toEqual([]);
  expect(parser.push('id\ndata: {"a":1}\n\nevent: x\ndata: 1\ndata: 2\n\n')).toEqual([
    { id: 7, event: "said", data: '{"a":1}' },
    { id: null, event: "x", data: "1\n2" },
  ]);
});

test("a dropped line is taken up after the last number", async () => {
  const { heard, states, stop, done } = start(4);
  await turn();
  expect(requests[0]?.after).toBe("4");
  lines[0]?.write(event(5, "a") + event(6, "ö"));
  await turn();
  lines[0]?.close();
  await turn(2_000);
  expect(requests[1]?.after).toBe("6");
  lines[1]?.write(event(7, "c"));
  await turn();
  expect(heard).toEqual([
    { type: "said", number: 5, text: "a" },
    { type: "said", number: 6, text: "ö" },
    { type: "said", number: 7, text: "c" },
  ]);
  expect(states).toEqual(["connecting", "open", "lost", "connecting", "open"]);
  stop.abort();
  await done;
});

test("a silent line is given up, and waits grow", async () => {
  statuses = [200, 503, 503];
  const { states, stop, done } = start();
  await turn(39_000);
  expect(requests).toHaveLength(1);
  await turn(1_500);
  expect(requests[0]?.isAborted()).toBe(true);
  await turn(1_500);
  expect(requests).toHaveLength(2);
  await turn(1_000);
  expect(requests).toHaveLength(2);
  await turn(2_000);
  expect(requests).toHaveLength(3);
  expect(states).toContain("lost");
  stop.abort();
  await done;
});

test("being online again ends the wait", async () => {
  statuses = [503, 503, 503, 503];
  const { stop, done } = start();
  await turn(8_000);
  const before = requests.length;
  window.dispatchEvent(new Event("online"));
  await turn();
  expect(requests).toHaveLength(before + 1);
  stop.abort();
  await done;
});

test("a page that nobody sees gives its line back until it is seen", async () => {
  const { states, stop, done } = start();
  await turn();
  page.hidden = true;
  page.dispatchEvent(new Event("visibilitychange"));
  const beat = setInterval(() => requests[0]?.isAborted() || lines[0]?.write(": still here\n\n"), 15_000);
  await turn(59_000);
  expect(requests[0]?.isAborted()).toBe(false);
  await turn(2_000);
  clearInterval(beat);
  expect(requests[0]?.isAborted()).toBe(true);
  expect(states.at(-1)).toBe("paused");
  await turn(600_000);
  expect(requests).toHaveLength(1);
  page.hidden = false;
  page.dispatchEvent(new Event("visibilitychange"));
  await turn();
  expect(requests).toHaveLength(2);
  stop.abort();
  await done;
});

test.each([401, 403, 404])("%i ends it for good", async (status) => {
  statuses = [status];
  const { refused, done } = start();
  await turn();
  await done;
  expect(refused).toHaveBeenCalledWith(expect.objectContaining({ status }));
  expect(requests).toHaveLength(1);
});
