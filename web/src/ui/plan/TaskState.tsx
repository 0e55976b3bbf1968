import { Ban, CircleAlert, CircleCheck, CircleDashed, CirclePause, Hourglass } from "lucide-react";
import type { WorkflowTaskState } from "@/api/types";
import { tOr } from "@/i18n";
import { formatDuration, formatMoney } from "@/i18n/format";
import { isTaskDone } from "@/state/session/plans";
import { Spinner } from "@/ui/components";
import { useNow, useT } from "@/ui/hooks";
import styles from "./Plan.module.css";

/** A sign and a word for how a task stands. */
export function TaskStateMark({ task, isShort = false }: { task: Pick<WorkflowTaskState, "status" | "refused">; isShort?: boolean }) {
  useT();
  const status = task.status === "completed" && !isTaskDone(task) ? "answered" : task.status;
  const word = tOr(`plans.task_${status}`, status);
  return (
    <span className={styles.state} title={isShort ? word : undefined}>
      <Sign status={status} />
      <span className={isShort ? "unseen" : undefined}>{word}</span>
    </span>
  );
}

function Sign({ status }: { status: string }) {
  const shared = { "aria-hidden": "true", size: 14 } as const;
  switch (status) {
    case "running":
      return <Spinner />;
    case "completed":
      return <CircleCheck {...shared} />;
    case "waiting":
      return <CirclePause {...shared} />;
    case "failed":
      return <CircleAlert {...shared} />;
    case "timeout":
      return <Hourglass {...shared} />;
    case "aborted":
    case "cancelled":
      return <Ban {...shared} />;
    default:
      return <CircleDashed {...shared} />;
  }
}

/** The time and the cost of a task, as far as they are known. */
export function TaskFigures({ task }: { task: WorkflowTaskState }) {
  useT();
  const isRunning = task.started_at !== null && task.finished_at === null && ["running", "waiting"].includes(task.status);
  const now = useNow(1000, isRunning);
  const end = task.finished_at === null ? now : Date.parse(task.finished_at);
  const time = task.started_at !== null && (isRunning || task.finished_at !== null) ? formatDuration(Math.max(0, end - Date.parse(task.started_at))) : "";
  const cost = task.cost ?? (task.status === "pending" ? task.estimated_cost : null);
  return <>{[time, cost ? formatMoney(cost) : ""].filter(Boolean).join(" · ")}</>;
}

/** Return the class of a task's frame. */
export function toneOf(status: string): string | undefined {
  if (status === "running") return styles.running;
  if (status === "waiting") return styles.waits;
  return ["failed", "timeout"].includes(status) ? styles.bad : undefined;
}
