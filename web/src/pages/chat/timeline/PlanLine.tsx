import { Check, CircleAlert, ListTree } from "lucide-react";
import { memo } from "react";
import { tOr } from "@/i18n";
import { formatAtMost, formatDuration, formatMoney } from "@/i18n/format";
import { call } from "@/api/client";
import { askPlanAgain } from "@/state/decisions";
import { openPanel } from "@/state/panel";
import { isPlanExpired, isPlanOver, isTaskDone } from "@/state/session/plans";
import type { EntryOf } from "@/state/session/types";
import { agentLabel } from "@/ui/agents";
import { Button, Spinner } from "@/ui/components";
import { useSelected, useT } from "@/ui/hooks";
import { useChat } from "../chatContext";
import { useAttempt } from "../useAttempt";
import styles from "./Timeline.module.css";

/** A plan in one line, in all its states. */
export const PlanLine = memo(function PlanLine({ entry }: { entry: EntryOf<"plan"> }) {
  const t = useT();
  const { conversation } = useChat();
  const { attempt, isBusy } = useAttempt();
  const { workflow_id, tasks, tasks_done, tasks_refused } = entry.plan;
  const plan = useSelected(conversation.store, (state) => state.plans[workflow_id]);
  const done = plan ? plan.tasks.filter(isTaskDone).length : tasks_done;
  const status = plan?.status ?? entry.plan.status;
  const running = plan?.tasks.find((task) => task.status === "running");
  const cost = plan?.cost ?? entry.plan.cost;
  const most = plan?.agreed_cost ?? plan?.estimated_cost_high ?? null;
  const { started_at: begun, finished_at: ended } = plan ?? entry.plan;
  const took = begun && ended ? Date.parse(ended) - Date.parse(begun) : null;
  const hasRefused = tasks_refused > 0 || plan?.tasks.some(({ refused }) => refused);
  const isOver = isPlanOver({ status });
  const isExpired = isPlanExpired(plan ?? entry.plan);
  const shownStatus = isExpired ? "expired" : hasRefused && status === "completed" ? "answered" : status;
  const words = [
    t("chat.planTasks", { count: tasks }),
    isOver && status === "completed" ? null : t("chat.planDone", { count: done }),
    running ? t("chat.working", { agent: agentLabel(running.agent) }) : tOr(`chat.plan_${shownStatus}`, status),
    took === null ? null : formatDuration(took),
    cost === null || cost === 0 ? null : isOver || most === null ? formatMoney(cost) : t("chat.costOfMost", { cost: formatMoney(cost), most: formatAtMost(most) }),
  ];
  const canGoOn = ["failed", "cancelled", "partial"].includes(status);
  return (
    <div className={styles.plan} role="group" aria-label={t("chat.plan")}>
      {["awaiting_approval", "answered", "expired"].includes(shownStatus) ? <ListTree aria-hidden="true" size={15} /> : !isOver ? <Spinner /> : shownStatus === "completed" ? <Check aria-hidden="true" size={15} /> : <CircleAlert aria-hidden="true" size={15} />}
      <strong>{t("chat.plan")}</strong>
      <span className={styles.words}>{words.filter(Boolean).join(" · ")}</span>
      <span className={styles.changeActions}>
        {canGoOn && (
          <Button size="small" isBusy={isBusy} onClick={() => attempt(() => call("POST /my/workflows/{workflow_id}/retry", { path: { workflow_id } }))}>
            {t("chat.goOn")}
          </Button>
        )}
        {isExpired && (
          <Button size="small" isBusy={isBusy} onClick={() => attempt(() => askPlanAgain(workflow_id))}>
            {t("decisions.askAgain")}
          </Button>
        )}
        <Button size="small" onClick={() => openPanel({ kind: "plan", id: workflow_id })}>
          {t("chat.open")}
        </Button>
      </span>
    </div>
  );
});
