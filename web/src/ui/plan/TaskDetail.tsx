import { ArrowLeft } from "lucide-react";
import type { WorkflowTaskState } from "@/api/types";
import { visible } from "@/state/visible";
import { agentLabel } from "@/ui/agents";
import { Avatar, Button, classes } from "@/ui/components";
import { Visible } from "@/ui/decisions/Visible";
import { useT } from "@/ui/hooks";
import { Markdown } from "@/ui/markdown/Markdown";
import { TaskFigures, TaskStateMark } from "./TaskState";
import styles from "./Plan.module.css";

/** One task: its whole text, what it writes while it runs, and its result. */
export function TaskDetail({ task, words, onBack }: { task: WorkflowTaskState; words: string; onBack: () => void }) {
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
        <TaskStateMark status={task.status} />
      </div>
      <p className={classes(styles.taskText, "data")}>
        <Visible text={task.description} keep={"\n\t"} />
      </p>
      {task.error !== null && task.status !== "completed" && <p className={classes(styles.error, "data")}>{visible(task.error, "\n")}</p>}
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
