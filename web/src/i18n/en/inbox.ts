import type { Area } from "../message";

export const inbox = {
  title: "Inbox",
  empty: "Nothing waits for you",
  emptyText: "Questions of your agents and plans of all projects come here.",
  where: "{project} · {conversation}",
  open: "Open the conversation",
  waiting: "Waits for you",
  missed: "While you were away",
  markSeen: "Mark all as seen",
  expired: "Nobody answered in time, so this was not done.",
  failed: "{agent} did not finish",
  failedTeam: "The team did not finish",
  show: "Look at it",
  hide: "Hide",
  more: { one: "{count} more waits.", other: "{count} more wait." },
} as const satisfies Area;
