import { ArrowLeft, ChevronDown } from "lucide-react";
import type { ReactNode } from "react";
import type { WorkflowState, WorkflowTaskState } from "@/api/types";
import { problemText } from "@/i18n/problemText";
import { goOn } from "@/state/decisions";
import { isPlanOver } from "@/state/session/plans";
import { visible } from "@/state/visible";
import { agentLabel } from "@/ui/agents";
import { Avatar, Button, Menu, Prose, classes } from "@/ui/components";
import { Visible } from "@/ui/decisions/Visible";
import { useAction, useT } from "@/ui/hooks";
import { Markdown } from "@/ui/markdown/Markdown";
import { TaskFigures, TaskStateMark } from "./TaskState";
import styles from "./Plan.module.css";

interface TaskDetailProps {
  plan: WorkflowState;
  task: WorkflowTaskState;
  /** What it writes while it runs. */
  words: string;
  /** Names of the agents that could do it. */
  agents: readonly string[];
  /** What it did with its tools. */
  calls?: ReactNode;
  onBack: () => void;
}

/** One task: its whole text, what it writes while it runs, its result, and what can be done if it has none. */
export function TaskDetail({ plan, task, words, agents, calls, onBack }: TaskDetailProps) {
  const t = useT();
  const text = task.result ?? words;
  return (
    <div className={styles.detail}>
      <div>
        <Button kind="quiet" size="small" autoFocus onClick={onBack}>
          <ArrowLeft aria-hidden="true" size={16} />
          {t("plans.back")}
        </Button>
      </div>
      <div className={styles.taskHead}>
        <Avatar agent={task.agent} />
        <span className={classes(styles.taskName, "data")}>{visible(agentLabel(task.agent))}</span>
        <span className="data muted">{visible(task.id)}</span>
        {task.depends_on.length > 0 && <span className="muted data">{t("plans.after", { tasks: visible(task.depends_on.join(", ")) })}</span>}
        <span className={styles.end} />
        <span className="muted">
          <TaskFigures task={task} />
        </span>
        <TaskStateMark task={task} />
      </div>
      <p className={classes(styles.taskText, "data")}>
        <Visible text={task.description} keep={"\n\t"} />
      </p>
      {task.error !== null && task.status !== "completed" && <p className={classes(styles.error, "data")}>{visible(task.error, "\n")}</p>}
      {hasNoResult(plan, task) && <TaskActions plan={plan} task={task} agents={agents} onDone={onBack} />}
      {calls}
      <section aria-label={task.result === null ? t("plans.output") : t("plans.result")} className="stack">
        <h3>{task.result === null ? t("plans.output") : t("plans.result")}</h3>
        {text ? (
          <div className={styles.words}>
            <Markdown text={text} isGrowing={task.result === null} />
          </div>
        ) : (
          <p className="muted">{t("plans.noResult")}</p>
        )}
      </section>
    </div>
  );
}

/** Return whether a task was not done, and so can be asked again, left out or given away. */
function hasNoResult(plan: Pick<WorkflowState, "status" | "started_at">, task: Pick<WorkflowTaskState, "status">): boolean {
  if (plan.status === "completed" || plan.started_at === null || task.status === "completed") return false;
  return isPlanOver(plan) || ["failed", "aborted", "cancelled", "timeout"].includes(task.status);
}

/** What helps a task that was not done: somebody else does it, or nobody. The plan goes on at once. */
function TaskActions({ plan, task, agents, onDone }: Pick<TaskDetailProps, "plan" | "task" | "agents"> & { onDone: () => void }) {
  const t = useT();
  const { run, isBusy, problem } = useAction(async (change?: { agent?: string; drop?: boolean }) => {
    await goOn(plan.id, change ? [{ id: task.id, ...change }] : []);
    onDone();
  });
  const others = agents.filter((name) => name !== task.agent);
  const isLast = plan.tasks.length === 1;
  const isOver = isPlanOver(plan); // the others are not disturbed
  return (
    <div className={styles.footer}>
      <div className={styles.buttons}>
        <Button isBusy={isBusy} isDisabled={!isOver} onClick={() => void run()}>
          {t("plans.askAgain")}
        </Button>
        {others.length > 0 && (
          <Menu
            label={t("plans.giveAway")}
            entries={others.map((agent) => ({ label: visible(agentLabel(agent)), icon: <Avatar agent={agent} />, run: () => void run({ agent }) }))}
            trigger={
              <Button isBusy={isBusy} isDisabled={!isOver}>
                {t("plans.giveAway")}
                <ChevronDown aria-hidden="true" size={16} />
              </Button>
            }
          />
        )}
        {!isLast && <Button isDisabled={isBusy || !isOver} onClick={() => void run({ drop: true })}>{t("plans.skip")}</Button>}
      </div>
      <p className="muted small">{isOver ? t("plans.skipHint") : t("plans.laterHint")}</p>
      <p role="alert" className={styles.error}>
        {problem && <Prose text={problemText(problem)} />}
      </p>
    </div>
  );
}
