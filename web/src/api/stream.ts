// Follows a stream of events over fetch: EventSource can't say why it was refused.
// A line that drops is taken up after the last number that was heard.

import { basePath } from "./base";
import { reportSignedOut } from "./client";
import { createEventParser } from "./eventParser";
import { Problem, problemOf } from "./problem";

const SILENT_MS = 40_000; // the server sends a comment every 15 seconds
const HIDDEN_MS = 60_000; // a tab that nobody looks at gives its connection back: browsers have six per host
const FIRST_WAIT_MS = 1_000;
const MAX_WAIT_MS = 15_000;

export type LineState = "connecting" | "open" | "lost" | "paused";

export interface Followed<T> {
  /** Start after this number; null: from now on. */
  after: number | null;
  signal: AbortSignal;
  /** What came in one piece, in order. */
  onItems: (items: T[]) => void;
  /** How the line is; `retryAt` is when it is tried again. */
  onLine?: (state: LineState, retryAt: number | null) => void;
  /** The stream was refused for good: 401, 403 or 404. */
  onRefused?: (problem: Problem) => void;
}

/** Follow a stream until its signal aborts or it is refused for good. Items are the data, with `type` and `number`. */
export async function follow<T>(path: string, options: Followed<T>): Promise<void> {
  const { signal, onItems } = options;
  const onLine = options.onLine ?? (() => undefined);
  let last = options.after;
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    onLine("connecting", null);
    try {
      await readOnce(path, last, signal, (frames) => {
        wait = FIRST_WAIT_MS;
        onLine("open", null);
        const items: T[] = [];
        for (const { id, event, data } of frames) {
          if (id !== null) last = id;
          items.push({ ...(JSON.parse(data) as object), type: event, ...(id === null ? {} : { number: id }) } as T);
        }
        if (items.length && !signal.aborted) onItems(items);
      });
    } catch (failure) {
      if (isAborted(signal)) return;
      if (failure instanceof Problem && [401, 403, 404].includes(failure.status)) {
        if (failure.status === 401) reportSignedOut(failure);
        options.onRefused?.(failure);
        return;
      }
      if (!isLineFailure(failure)) throw failure;
      if (failure instanceof Problem && failure.retryAfter !== null) wait = Math.max(wait, failure.retryAfter * 1000);
    }
    if (isAborted(signal)) return;
    if (document.hidden) {
      onLine("paused", null);
      await waitFor(signal, [[document, "visibilitychange"]], null);
    } else {
      const pause = wait * (0.75 + Math.random() / 2);
      onLine("lost", Date.now() + pause);
      await waitFor(signal, [[window, "online"], [window, "focus"]], pause);
      wait = Math.min(2 * wait, MAX_WAIT_MS);
    }
  }
}

// A function, because the signal changes while others run.
function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}

function isLineFailure(failure: unknown): boolean {
  return failure instanceof Problem || failure instanceof TypeError || failure instanceof DOMException;
}

async function readOnce(
  path: string,
  after: number | null,
  signal: AbortSignal,
  heard: (frames: ReturnType<ReturnType<typeof createEventParser>["push"]>) => void,
): Promise<void> {
  const stop = new AbortController();
  const end = () => stop.abort();
  let silence = setTimeout(end, SILENT_MS);
  let hidden: ReturnType<typeof setTimeout> | undefined;
  let lastTick = Date.now();
  const onVisibility = () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(end, HIDDEN_MS);
  };
  // A machine that slept has a dead line and does not know it: its clock has jumped.
  const awake = setInterval(() => {
    const now = Date.now();
    if (now - lastTick > SILENT_MS) end();
    lastTick = now;
  }, 5_000);
  signal.addEventListener("abort", end);
  document.addEventListener("visibilitychange", onVisibility);
  window.addEventListener("offline", end);
  try {
    const headers: Record<string, string> = after === null ? {} : { "Last-Event-ID": String(after) };
    const response = await fetch(`${basePath}${path}`, { headers, signal: stop.signal, credentials: "same-origin" });
    if (!response.ok) throw problemOf(response, await response.text());
    if (!response.body) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = createEventParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return;
      clearTimeout(silence);
      silence = setTimeout(end, SILENT_MS);
      heard(parser.push(value));
    }
  } finally {
    clearTimeout(silence);
    clearTimeout(hidden);
    clearInterval(awake);
    signal.removeEventListener("abort", end);
    document.removeEventListener("visibilitychange", onVisibility);
    window.removeEventListener("offline", end);
    end();
  }
}

/** Wait for one of these events, or so long, or until told to stop. */
function waitFor(signal: AbortSignal, events: [EventTarget, string][], ms: number | null): Promise<void> {
  return new Promise((resolve) => {
    const all: [EventTarget, string][] = [...events, [signal, "abort"]];
    const over = () => {
      clearTimeout(timer);
      for (const [target, name] of all) target.removeEventListener(name, over);
      resolve();
    };
    const timer = ms === null ? undefined : setTimeout(over, ms);
    for (const [target, name] of all) target.addEventListener(name, over);
  });
}
