// Short notices at the edge of the page, and deletions that can be undone for a while.

import { createCell } from "./store";

const SHOWN_MS = 6_000;
export const UNDO_MS = 10_000;

export interface Toast {
  id: number;
  kind: "info" | "error";
  text: string;
  action: { label: string; run: () => void } | null;
}

export const toasts = createCell<readonly Toast[]>([]);
let number = 0;
const waiting = new Map<number, () => void>();

/** Show a notice; return its id. */
export function toast(text: string, options: { kind?: Toast["kind"]; action?: Toast["action"]; ms?: number } = {}): number {
  const id = ++number;
  toasts.set((shown) => [...shown, { id, kind: options.kind ?? "info", text, action: options.action ?? null }]);
  setTimeout(() => dismiss(id), options.ms ?? SHOWN_MS);
  return id;
}

export function dismiss(id: number): void {
  toasts.set((shown) => (shown.some((each) => each.id === id) ? shown.filter((each) => each.id !== id) : shown));
}

/** Do something after ten seconds, unless the user takes it back. The caller has hidden what goes, and `undo` shows it. */
export function withUndo(text: string, undoLabel: string, run: () => void, undo: () => void): void {
  const end = (isDone: boolean) => {
    if (!waiting.delete(id)) return;
    clearTimeout(timer);
    dismiss(id);
    if (isDone) run();
    else undo();
  };
  const id = toast(text, { action: { label: undoLabel, run: () => end(false) }, ms: UNDO_MS });
  const timer = setTimeout(() => end(true), UNDO_MS);
  waiting.set(id, () => end(true));
}

/** Do at once what waits for an undo: the page is about to be left. */
export function flushUndo(): void {
  for (const run of [...waiting.values()]) run();
}

if (typeof window !== "undefined") window.addEventListener("pagehide", flushUndo);
