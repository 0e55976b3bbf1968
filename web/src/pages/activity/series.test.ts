import { expect, test } from "vitest";
import { HEIGHT, WIDTH, barsOf, lineOf, peakOf, workOf } from "./series";

test("bars stand on the ground, and the highest fills the chart", () => {
  const bars = barsOf([0, 5, 10, 0.001], 10);
  expect(bars.map(({ height }) => height)).toEqual([0, HEIGHT / 2, HEIGHT, 2]);
  expect(bars.every(({ y, height }) => y + height === HEIGHT)).toBe(true);
  expect((bars.at(-1)?.x ?? 0) + (bars.at(-1)?.width ?? 0)).toBeLessThanOrEqual(WIDTH);
});

test("a line has gaps where there is no value, and lone values are seen", () => {
  expect(lineOf([null, 10, 5, null, 10], 10)).toBe("M180.0 0.0L300.0 48.0M492.0 0.0h96.0");
  expect(lineOf([null, null], 10)).toBe("");
});

test("the peak is the first largest value above nothing", () => {
  expect(peakOf([0, 3, null, 3])).toEqual({ value: 3, place: 1 });
  expect(peakOf([0, null])).toBeNull();
});

test("work of the last hour counts what was finished since the sample before, also since one that is older", () => {
  const at = (time: string, total: number) => ({ at: `2026-01-01T${time}Z`, active_tasks: 1, queued_tasks: 0, total_tasks_processed: total });
  const { at: now, ...current } = at("12:00:00", 9);
  const work = workOf({ ...current, history: [at("10:00:00", 2), at("11:30:00", 4), at("11:30:30", 4)] }, now);
  expect(work.map((sample) => [sample.at.slice(11, 19), sample.finished])).toEqual([
    ["11:30:00", 2],
    ["11:30:30", 0],
    ["12:00:00", 5],
  ]);
});
