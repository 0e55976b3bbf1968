// What was used: figures, a chart by day, and tables by something.

export { DayChart } from "./DayChart";
export { UsageFigures, UsageTable } from "./UsageTable";
