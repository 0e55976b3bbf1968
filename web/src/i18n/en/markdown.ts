import type { Area } from "../message";

export const markdown = {
  text: "text",
  table: "Table",
  taskDone: "done",
  taskOpen: "to do",
  wrap: "Wrap long lines",
  copyCode: "Copy code",
  copied: "Copied",
  unfold: { one: "Show the line", other: "Show all {count} lines" },
  fold: "Show less",
} as const satisfies Area;
