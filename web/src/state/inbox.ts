// Questions of all projects that wait for the user: their number is shown everywhere.

import { call } from "@/api/client";
import { Problem } from "@/api/problem";
import type { ApprovalState } from "@/api/types";
import { preferences } from "./preferences";
import { createCell } from "./store";

const EVERY_MS = 60_000;
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

/** Keep the inbox fresh while somebody is signed in; return what ends it. Streams tell of the open project only. */
export function watchInbox(): () => void {
  const look = () => {
    if (!document.hidden || preferences.get().notifications) refreshInbox();
  };
  const timer = setInterval(look, EVERY_MS);
  document.addEventListener("visibilitychange", look);
  look();
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", look);
    if (settling) clearTimeout(settling);
    settling = null;
    inbox.set(EMPTY);
  };
}
