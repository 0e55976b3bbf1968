// Questions of all projects that wait for the user: their number is shown everywhere.

import { call } from "@/api/client";
import { Problem } from "@/api/problem";
import type { ApprovalState } from "@/api/types";
import { preferences } from "./preferences";
import { createCell } from "./store";

const LOOK_MS = 5_000; // streams tell of the open project only
const EVERY_MS = 60_000; // for changes that do not change which questions wait, such as a later deadline
const SETTLE_MS = 300;

export interface InboxState {
  pending: readonly ApprovalState[];
  total: number;
  isLoaded: boolean;
}

const EMPTY: InboxState = { pending: [], total: 0, isLoaded: false };

export const inbox = createCell<InboxState>(EMPTY);
let settling: ReturnType<typeof setTimeout> | null = null;

/** Load the pending questions soon; several wishes at once are one load. */
export function refreshInbox(): void {
  settling ??= setTimeout(() => {
    settling = null;
    void load();
  }, SETTLE_MS);
}

async function load(): Promise<void> {
  try {
    const { items, total } = await call("GET /my/approvals", { query: { status: "pending", limit: 100 } });
    inbox.set({ pending: items, total, isLoaded: true });
  } catch (failure) {
    if (!(failure instanceof Problem)) throw failure; // the next round tries again
  }
}

/** Load the pending questions if there are other ones than before: a new one is the newest, a settled one is missing in the total. */
async function loadIfChanged(): Promise<void> {
  try {
    const { items, total } = await call("GET /my/approvals", { query: { status: "pending", limit: 1 } });
    const known = inbox.get();
    if (total !== known.total || items[0]?.id !== known.pending[0]?.id) refreshInbox();
  } catch (failure) {
    if (!(failure instanceof Problem)) throw failure; // the next round tries again
  }
}

/** Keep the inbox fresh while somebody is signed in; return what ends it. */
export function watchInbox(): () => void {
  const isWatched = () => !document.hidden || preferences.get().notifications;
  const reload = () => {
    if (isWatched()) refreshInbox();
  };
  const look = () => {
    if (isWatched()) void loadIfChanged();
  };
  const timers = [setInterval(reload, EVERY_MS), setInterval(look, LOOK_MS)];
  document.addEventListener("visibilitychange", reload);
  reload();
  return () => {
    for (const timer of timers) clearInterval(timer);
    document.removeEventListener("visibilitychange", reload);
    if (settling) clearTimeout(settling);
    settling = null;
    inbox.set(EMPTY);
  };
}
