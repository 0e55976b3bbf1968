import { Plus, RotateCcw, X } from "lucide-react";
import { type EditedTask, MAX_TASKS, addTask, possibleBefore, toggleDrop } from "@/state/planEdit";
import { hiddenIn, visible } from "@/state/visible";
import { agentHue, agentLabel } from "@/ui/agents";
import { Button, IconButton, Select, TextArea, classes } from "@/ui/components";
import { Visible } from "@/ui/decisions/Visible";
import { useT } from "@/ui/hooks";
import styles from "./Plan.module.css";

interface EditorProps {
  tasks: EditedTask[];
  /** Names of the agents that a task can be given to. */
  agents: readonly string[];
  onChange: (tasks: EditedTask[]) => void;
}

/** Changes the tasks of a plan: text, agent, order; drops and adds tasks. */
export function PlanEditor({ tasks, agents, onChange }: EditorProps) {
  const t = useT();
  const change = (id: string, values: Partial<EditedTask>) => onChange(tasks.map((task) => (task.id === id ? { ...task, ...values } : task)));
  return (
    <div className={styles.editor}>
      <ol role="list" className={styles.list} aria-label={t("plans.tasks")}>
        {tasks.map((task) => (
          <li key={task.id} className={classes(styles.edited, `hue${agentHue(task.agent)}`)}>
            <EditedRow task={task} tasks={tasks} agents={agents} change={(values) => change(task.id, values)} toggle={() => onChange(toggleDrop(tasks, task.id))} />
          </li>
        ))}
      </ol>
      {tasks.length < MAX_TASKS && (
        <div>
          <Button onClick={() => onChange(addTask(tasks, agents[0] ?? ""))}>
            <Plus aria-hidden="true" size={16} />
            {t("plans.addTask")}
          </Button>
        </div>
      )}
    </div>
  );
}

interface RowProps {
  task: EditedTask;
  tasks: readonly EditedTask[];
  agents: readonly string[];
  change: (values: Partial<EditedTask>) => void;
  toggle: () => void;
}

function EditedRow({ task, tasks, agents, change, toggle }: RowProps) {
  const t = useT();
  const name = visible(task.id);
  const before = possibleBefore(tasks, task.id);
  const names = [...new Set([task.agent, ...agents])];
  return (
    <>
      <div className={styles.taskHead}>
        <span className={classes(styles.taskName, "data", task.isDropped && styles.gone)}>{name}</span>
        {task.isDropped && <span className="muted">{t("plans.dropped")}</span>}
        <span className={styles.end} />
        <IconButton label={task.isDropped ? t("plans.restore", { task: name }) : t("plans.drop", { task: name })} onClick={toggle}>
          {task.isDropped ? <RotateCcw aria-hidden="true" size={16} /> : <X aria-hidden="true" size={16} />}
        </IconButton>
      </div>
      {!task.isDropped && (
        <>
          <TextArea
            label={t("plans.taskText", { task: name })}
            isLabelHidden
            rows={2}
            maxLength={4000}
            value={task.description}
            hint={hiddenIn(task.description) && <Visible text={task.description} keep={"\n\t"} />}
            onChange={(event) => change({ description: event.target.value })}
          />
          <Select
            label={t("plans.taskAgent", { task: name })}
            isLabelHidden
            value={task.agent}
            options={names.map((agent) => ({ value: agent, label: visible(agentLabel(agent)) }))}
            onChange={(event) => change({ agent: event.target.value })}
          />
          {before.length > 0 && (
            <fieldset className={styles.deps}>
              <legend className="muted">{t("plans.waitsFor", { task: name })}</legend>
              {before.map((id) => (
                <label key={id} className="data">
                  <input
                    type="checkbox"
                    checked={task.depends_on.includes(id)}
                    onChange={(event) => change({ depends_on: event.target.checked ? [...task.depends_on, id] : task.depends_on.filter((each) => each !== id) })}
                  />
                  {visible(id)}
                </label>
              ))}
            </fieldset>
          )}
        </>
      )}
    </>
  );
}
