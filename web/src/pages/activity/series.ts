// Where the bars and lines of a chart are. The chart draws in a box of WIDTH by HEIGHT units, and stretches.

import type { ActivityBucket, SpaceSample, SpaceState } from "@/api/types";

export const [WIDTH, HEIGHT] = [600, 96];

export interface Bar {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Return the largest value, and where it is; null without one above 0. */
export function peakOf(values: readonly (number | null)[]): { value: number; place: number } | null {
  let peak: { value: number; place: number } | null = null;
  values.forEach((value, place) => {
    if (value !== null && value > (peak?.value ?? 0)) peak = { value, place };
  });
  return peak;
}

/** Return bars for the values; a small value is still seen. */
export function barsOf(values: readonly (number | null)[], top: number): Bar[] {
  const step = WIDTH / Math.max(values.length, 1);
  return values.map((value, place) => {
    const height = value === null || value <= 0 || top <= 0 ? 0 : Math.max(2, (value / top) * HEIGHT);
    return { x: place * step + step * 0.1, y: HEIGHT - height, width: step * 0.8, height };
  });
}

/** Return the text of an SVG path through the values; gaps stay gaps, and a lone value is a short line. */
export function lineOf(values: readonly (number | null)[], top: number): string {
  const step = WIDTH / Math.max(values.length, 1);
  const parts: string[] = [];
  values.forEach((value, place) => {
    if (value === null || top <= 0) return;
    const [x, y] = [(place + 0.5) * step, HEIGHT - (value / top) * HEIGHT];
    const isJoined = place > 0 && values[place - 1] !== null;
    const isLone = !isJoined && (values[place + 1] ?? null) === null;
    const start = isLone ? x - 0.4 * step : x; // as wide as a bar
    parts.push(`${isJoined ? "L" : "M"}${start.toFixed(1)} ${y.toFixed(1)}${isLone ? `h${(0.8 * step).toFixed(1)}` : ""}`);
  });
  return parts.join("");
}

/** Return whether anything happened. */
export function isQuiet(buckets: readonly ActivityBucket[]): boolean {
  return buckets.every(({ messages, cost_usd, tokens }) => messages === 0 && cost_usd === 0 && tokens === 0);
}

const HOUR_MS = 3_600_000;

/** Return the samples of the last hour up to now, each with the number of tasks finished since the one before. */
export function workOf(space: Pick<SpaceState, "history" | keyof Omit<SpaceSample, "at">>, now: string): (SpaceSample & { finished: number })[] {
  const { history, active_tasks, queued_tasks, total_tasks_processed } = space;
  const samples = [...history, { at: now, active_tasks, queued_tasks, total_tasks_processed }];
  return samples
    .map((sample, place) => ({ ...sample, finished: sample.total_tasks_processed - (samples[place - 1] ?? sample).total_tasks_processed }))
    .filter(({ at }) => Date.parse(now) - Date.parse(at) <= HOUR_MS); // an idle project has older samples too
}
