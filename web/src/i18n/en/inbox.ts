import type { Area } from "../message";

export const inbox = {
  title: "Inbox",
  empty: "Nothing waits for you",
  emptyText: "Questions of your agents and plans of all projects come here.",
  where: "{project} · {conversation}",
  open: "Open the conversation",
  waiting: "Waits for you",
  missed: "Nobody answered in time",
  show: "Look at it",
  hide: "Hide",
  more: { one: "{count} more waits.", other: "{count} more wait." },
} as const satisfies Area;
