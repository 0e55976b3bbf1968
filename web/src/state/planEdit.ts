// A plan that is changed before it is approved.

import type { TaskChange } from "@/api/types";

export interface EditedTask {
  id: string;
  agent: string;
  description: string;
  depends_on: string[];
  isNew: boolean;
  isDropped: boolean;
}

type Task = Pick<EditedTask, "id" | "agent" | "description" | "depends_on">;
export const MAX_TASKS = 20;

export function beginEdit(tasks: readonly Task[]): EditedTask[] {
  return tasks.map(({ id, agent, description, depends_on }) => ({ id, agent, description, depends_on, isNew: false, isDropped: false }));
}

export function addTask(tasks: readonly EditedTask[], agent: string): EditedTask[] {
  let number = tasks.length + 1;
  while (tasks.some(({ id }) => id === `task_${number}`)) number++;
  return [...tasks, { id: `task_${number}`, agent, description: "", depends_on: [], isNew: true, isDropped: false }];
}

/** Drop a task or take it back; a new one just goes. */
export function toggleDrop(tasks: readonly EditedTask[], id: string): EditedTask[] {
  return tasks.flatMap((task) => {
    if (task.id === id) return task.isNew ? [] : [{ ...task, isDropped: !task.isDropped }];
    return [{ ...task, depends_on: tasks.some((each) => each.id === id && each.isNew) ? task.depends_on.filter((each) => each !== id) : task.depends_on }];
  });
}

/** Return the tasks that a task can wait for: those that don't wait for it themselves. */
export function possibleBefore(tasks: readonly EditedTask[], id: string): string[] {
  const waiting = new Set([id]);
  for (let size = 0; size !== waiting.size; ) {
    size = waiting.size;
    for (const task of tasks) if (task.depends_on.some((each) => waiting.has(each))) waiting.add(task.id);
  }
  return tasks.filter((task) => !waiting.has(task.id) && !task.isDropped).map((task) => task.id);
}

/** Return what the server is told: only what is different. */
export function changesOf(before: readonly Task[], after: readonly EditedTask[]): TaskChange[] {
  return after.flatMap((task): TaskChange[] => {
    const { id, agent, description, depends_on } = task;
    if (task.isDropped) return [{ id, drop: true }];
    if (task.isNew) return [{ id, agent, description, depends_on }];
    const old = before.find((each) => each.id === id);
    const change: TaskChange = { id };
    if (agent !== old?.agent) change.agent = agent;
    if (description !== old?.description) change.description = description;
    const isOther = depends_on.length !== old?.depends_on.length || depends_on.some((each) => !old.depends_on.includes(each));
    if (isOther) change.depends_on = depends_on;
    return Object.keys(change).length > 1 ? [change] : [];
  });
}

/** Return what is wrong with a changed plan, as far as the page can tell; null if nothing is. */
export function mistakeOf(tasks: readonly EditedTask[]): "empty" | "nothing_left" | null {
  const kept = tasks.filter(({ isDropped }) => !isDropped);
  if (!kept.length) return "nothing_left";
  return kept.some(({ description }) => !description.trim()) ? "empty" : null;
}
