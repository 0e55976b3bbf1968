// How the list of conversations is ordered: what waits for the user, what is pinned, then by day.

import type { Session } from "@/api/types";

export interface Group {
  kind: "waiting" | "pinned" | "day";
  /** Of a day. */
  at: string;
  sessions: Session[];
}

/** Return the groups of the list; `dayOf` names the day of a time. */
export function groupsOf(sessions: readonly Session[], dayOf: (at: string) => string): Group[] {
  const byUse = sessions.toSorted((one, other) => Date.parse(other.updated_at) - Date.parse(one.updated_at));
  const waiting = byUse.filter(({ state }) => state === "waiting");
  const pinned = byUse.filter(({ state, pinned: isPinned }) => isPinned && state !== "waiting");
  const groups: Group[] = [];
  if (waiting.length) groups.push({ kind: "waiting", at: "", sessions: waiting });
  if (pinned.length) groups.push({ kind: "pinned", at: "", sessions: pinned });
  let day = "";
  for (const session of byUse) {
    if (session.pinned || session.state === "waiting") continue;
    const name = dayOf(session.updated_at);
    if (name !== day) groups.push({ kind: "day", at: session.updated_at, sessions: [] });
    day = name;
    groups.at(-1)?.sessions.push(session);
  }
  return groups;
}
