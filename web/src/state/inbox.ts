// Questions of all projects that wait for the user: their number is shown everywhere.

import { call, isAbort } from "@/api/client";
import { Problem } from "@/api/problem";
import type { ApprovalState } from "@/api/types";
import { preferences } from "./preferences";
import { createCell } from "./store";

const LOOK_MS = 5_000; // streams tell of the open project only
const HIDDEN_LOOK_MS = 30_000;
const EVERY_MS = 60_000; // for changes that do not change which questions wait, such as a later deadline
const SETTLE_MS = 300;

export interface InboxState {
  pending: readonly ApprovalState[];
  total: number;
  isLoaded: boolean;
}

const EMPTY: InboxState = { pending: [], total: 0, isLoaded: false };

export const inbox = createCell<InboxState>(EMPTY);
let watch = new AbortController();
let settling: ReturnType<typeof setTimeout> | null = null;

/** Load the pending questions soon; several wishes at once are one load. */
export function refreshInbox(): void {
  settling ??= setTimeout(() => {
    settling = null;
    void load();
  }, SETTLE_MS);
}

async function load(): Promise<void> {
  await look(100, (pending, total) => inbox.set({ pending, total, isLoaded: true }));
}

/** Load the pending questions if there are other ones than before: a new one is the newest, a settled one is missing in the total. */
async function loadIfChanged(): Promise<void> {
  await look(1, ([newest], total) => {
    const known = inbox.get();
    if (total !== known.total || newest?.id !== known.pending[0]?.id) refreshInbox();
  });
}

async function look(limit: number, take: (pending: readonly ApprovalState[], total: number) => void): Promise<void> {
  const { signal } = watch;
  try {
    const { items, total } = await call("GET /my/approvals", { query: { status: "pending", limit } }, { signal });
    if (!signal.aborted) take(items, total);
  } catch (failure) {
    if (!(failure instanceof Problem) && !isAbort(failure)) throw failure; // the next round tries again
  }
}

/** Whether a page that nobody sees can tell of a new question. */
function canNotify(): boolean {
  return preferences.get().notifications && "Notification" in globalThis && Notification.permission === "granted";
}

/** Keep the inbox fresh while somebody is signed in; return what ends it. */
export function watchInbox(): () => void {
  watch = new AbortController();
  let lookedAt = 0;
  const reload = () => {
    if (!document.hidden || canNotify()) refreshInbox();
  };
  const lookAgain = () => {
    if (document.hidden && (!canNotify() || Date.now() - lookedAt < HIDDEN_LOOK_MS)) return;
    lookedAt = Date.now();
    void loadIfChanged();
  };
  const timers = [setInterval(reload, EVERY_MS), setInterval(lookAgain, LOOK_MS)];
  document.addEventListener("visibilitychange", reload);
  reload();
  return () => {
    for (const timer of timers) clearInterval(timer);
    document.removeEventListener("visibilitychange", reload);
    if (settling) clearTimeout(settling);
    settling = null;
    watch.abort();
    inbox.set(EMPTY);
  };
}
