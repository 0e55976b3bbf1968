import type { Area } from "../message";

export const common = {
  appName: "Artel",
  loading: "Loading…",
  cancel: "Cancel",
  close: "Close",
  save: "Save",
  delete: "Delete",
  undo: "Undo",
  copy: "Copy",
  copied: "Copied",
  retry: "Try again",
  more: "More",
  showMore: "Show more",
  search: "Search",
  today: "Today",
  yesterday: "Yesterday",
  timeLeft: "{time} left",
  expired: "Time is up",
  auto: "Auto",
  dismiss: "Dismiss",
  unknownPrice: "price unknown",
} as const satisfies Area;
