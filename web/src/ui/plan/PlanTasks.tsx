import { useEffect, useMemo, useRef } from "react";
import type { WorkflowTaskState } from "@/api/types";
import { NODE, layoutPlan } from "@/state/planGraph";
import { visible } from "@/state/visible";
import { agentHue, agentLabel } from "@/ui/agents";
import { classes } from "@/ui/components";
import { Visible } from "@/ui/decisions/Visible";
import { useT } from "@/ui/hooks";
import { TaskFigures, TaskStateMark, toneOf } from "./TaskState";
import styles from "./Plan.module.css";

interface TasksProps {
  tasks: readonly WorkflowTaskState[];
  /** Whether the plan has begun: before that tasks have no state. */
  hasBegun: boolean;
  onOpen: (id: string) => void;
}

/** The plan as a graph: a task stands below those that it waits for. The one at work is kept in view. */
export function PlanGraph({ tasks, onOpen }: TasksProps) {
  const t = useT();
  const { width, height, nodes, edges } = useMemo(() => layoutPlan(tasks), [tasks]);
  const frame = useRef<HTMLDivElement>(null);
  const active = tasks.find(({ status }) => status === "running")?.id ?? null;
  useEffect(() => {
    if (active !== null) frame.current?.querySelector(`[data-task="${CSS.escape(active)}"]`)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [active]);
  const statusOf = new Map(tasks.map(({ id, status }) => [id, status]));
  return (
    <div ref={frame} className={styles.graphFrame}>
      <div className={styles.graph} style={{ width, height }} role="group" aria-label={t("plans.tasks")}>
        <svg className={styles.edges} width={width} height={height} aria-hidden="true">
          {edges.map(({ from, to, path }) => (
            <path key={`${from} ${to}`} d={path} className={classes(styles.edge, statusOf.get(to) === "running" && styles.edgeActive)} />
          ))}
        </svg>
        {nodes.map(({ task, x, y }) => (
          <button
            key={task.id}
            type="button"
            data-task={task.id}
            className={classes(styles.node, toneOf(task.status), `hue${agentHue(task.agent)}`)}
            style={{ insetInlineStart: x, insetBlockStart: y, width: NODE.width, height: NODE.height }}
            onClick={() => onOpen(task.id)}
          >
            <span className={styles.nodeHead}>
              <span className="ellipsis data">{visible(task.id)}</span>
              <TaskStateMark task={task} isShort />
            </span>
            <span className={classes(styles.taskAgent, "ellipsis", "data")}>{visible(agentLabel(task.agent))}</span>
            <span className={classes(styles.nodeText, "ellipsis", "data")}>
              <TaskFigures task={task} />
            </span>
          </button>
        ))}
      </div>
    </div>
  );
}

/** The plan as a list, with the whole text of every task. */
export function PlanList({ tasks, hasBegun, onOpen }: TasksProps) {
  const t = useT();
  return (
    <ol role="list" className={styles.list} aria-label={t("plans.tasks")}>
      {tasks.map((task) => (
        <li key={task.id}>
          <button type="button" className={classes(styles.task, toneOf(task.status), `hue${agentHue(task.agent)}`)} onClick={() => onOpen(task.id)}>
            <span className={styles.taskHead}>
              <span className={classes(styles.taskName, "data")}>{visible(task.id)}</span>
              <span className={classes(styles.taskAgent, "data")}>{visible(agentLabel(task.agent))}</span>
              {task.depends_on.length > 0 && <span className="muted data">{t("plans.after", { tasks: visible(task.depends_on.join(", ")) })}</span>}
              <span className={classes(styles.end, "muted")}>
                <TaskFigures task={task} />
              </span>
              {hasBegun && <TaskStateMark task={task} />}
            </span>
            <span className={classes(styles.taskText, "data")}>
              <Visible text={task.description} keep={"\n\t"} />
            </span>
          </button>
        </li>
      ))}
    </ol>
  );
}
