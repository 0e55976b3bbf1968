import { expect, test } from "vitest";
import { addTask, beginEdit, changesOf, mistakeOf, possibleBefore, toggleDrop } from "./planEdit";
import { layersOf, layoutPlan } from "./planGraph";

const task = (id: string, ...depends_on: string[]) => ({ id, agent: "agent_coder", description: `Do ${id}`, depends_on });
const DIAMOND = [task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c")];

test("a diamond has three layers and four edges, and nothing overlaps", () => {
  expect(layersOf(DIAMOND).map((layer) => layer.map(({ id }) => id))).toEqual([["a"], ["b", "c"], ["d"]]);
  const { nodes, edges, width } = layoutPlan(DIAMOND);
  expect(edges.map(({ from, to }) => from + to).sort()).toEqual(["ab", "ac", "bd", "cd"]);
  expect(new Set(nodes.map(({ x, y }) => `${x} ${y}`)).size).toBe(4);
  expect(Math.max(...nodes.map(({ x }) => x))).toBeLessThan(width);
});

test("a circle, or a task that is missing, does not hang the graph", () => {
  expect(layersOf([task("a", "b"), task("b", "a"), task("c", "gone")]).flat()).toHaveLength(3);
});

test("only what was changed is told: text, agent, dropped, added, order", () => {
  const edited = beginEdit(DIAMOND);
  expect(changesOf(DIAMOND, edited)).toEqual([]);
  const dropped = toggleDrop(edited, "b");
  const added = addTask(dropped, "agent_writer").map((each) => (each.isNew ? { ...each, description: "Read it", depends_on: ["d"] } : each));
  const changed = added.map((each) => (each.id === "c" ? { ...each, agent: "agent_writer", depends_on: [] } : each));
  expect(changesOf(DIAMOND, changed)).toEqual([
    { id: "b", drop: true },
    { id: "c", agent: "agent_writer", depends_on: [] },
    { id: "task_5", agent: "agent_writer", description: "Read it", depends_on: ["d"] },
  ]);
  expect(changesOf(DIAMOND, toggleDrop(dropped, "b"))).toEqual([]);
});

test("a task can't wait for one that waits for it, and a plan needs words", () => {
  expect(possibleBefore(beginEdit(DIAMOND), "a")).toEqual([]);
  expect(possibleBefore(beginEdit(DIAMOND), "b")).toEqual(["a", "c"]);
  expect(mistakeOf(beginEdit(DIAMOND))).toBeNull();
  expect(mistakeOf(addTask(beginEdit(DIAMOND), "x"))).toBe("empty");
  expect(mistakeOf(beginEdit([]))).toBe("nothing_left");
});
