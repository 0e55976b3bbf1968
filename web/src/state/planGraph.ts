// Where the tasks of a plan stand in a graph: what depends on nothing in the same layer stands side by side.

export interface Placed<T> {
  task: T;
  x: number;
  y: number;
}

export interface PlanLayout<T> {
  width: number;
  height: number;
  nodes: Placed<T>[];
  /** From the bottom of a task to the top of one that waits for it. */
  edges: { from: string; to: string; path: string }[];
}

interface Task {
  id: string;
  depends_on: readonly string[];
}

export const NODE = { width: 164, height: 76, gapX: 16, gapY: 32 } as const;

/** Return the tasks in layers, in the order of the plan. */
export function layersOf<T extends Task>(tasks: readonly T[]): T[][] {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const levels = new Map<string, number>();
  const levelOf = (task: T): number => {
    const known = levels.get(task.id);
    if (known !== undefined) return known;
    levels.set(task.id, 0); // plans have no circles; if one had, this would end it
    const before = task.depends_on.flatMap((id) => byId.get(id) ?? []);
    const level = Math.max(-1, ...before.map(levelOf)) + 1;
    levels.set(task.id, level);
    return level;
  };
  const layers: T[][] = [];
  for (const task of tasks) (layers[levelOf(task)] ??= []).push(task);
  return layers.filter((layer) => layer.length);
}

export function layoutPlan<T extends Task>(tasks: readonly T[]): PlanLayout<T> {
  const layers = layersOf(tasks);
  const widthOf = (count: number) => count * NODE.width + (count - 1) * NODE.gapX;
  const width = Math.max(0, ...layers.map(({ length }) => widthOf(length)));
  const nodes = layers.flatMap((layer, level) =>
    layer.map((task, place) => ({ task, x: (width - widthOf(layer.length)) / 2 + place * (NODE.width + NODE.gapX), y: level * (NODE.height + NODE.gapY) })),
  );
  const placed = new Map(nodes.map((node) => [node.task.id, node]));
  const edges = nodes.flatMap((to) =>
    to.task.depends_on.flatMap((id) => {
      const from = placed.get(id);
      if (!from) return [];
      const [x1, y1, x2, y2] = [from.x + NODE.width / 2, from.y + NODE.height, to.x + NODE.width / 2, to.y];
      return [{ from: id, to: to.task.id, path: `M${x1} ${y1} C${x1} ${y1 + NODE.gapY / 2} ${x2} ${y2 - NODE.gapY / 2} ${x2} ${y2}` }];
    }),
  );
  return { width, height: Math.max(0, layers.length * (NODE.height + NODE.gapY) - NODE.gapY), nodes, edges };
}
