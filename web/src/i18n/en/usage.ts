import type { Area } from "../message";

export const usage = {
  cost: "Cost",
  calls: "Calls",
  input: "Tokens in",
  output: "Tokens out",
  unpriced: { one: "{count} call has no known price and is not in the cost.", other: "{count} calls have no known price and are not in the cost." },
  byDay: "By day",
  byProject: "By project",
  byAgent: "By agent",
  byModel: "By model",
  byUser: "By user",
  day: "Day (UTC)",
  agent: "Agent",
  planning: "Planning",
  deletedProject: "Deleted project",
  empty: "Nothing was used in this time",
  emptyHint: "Tokens and cost appear here after the first answer of a model.",
} as const satisfies Area;
