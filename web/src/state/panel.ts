// What the panel beside a conversation shows. It opens by itself for a question, unless the user has closed it.

import { createCell } from "./store";

export type PanelView =
  /** A question about a tool call, before or after its decision: `id` is of the approval. */
  | { kind: "question"; id: string }
  /** What a call has changed in a file: `id` is of the call. */
  | { kind: "change"; id: string; path: string }
  /** All questions about files of the same agent and turn: `id` is "TURN AGENT". */
  | { kind: "questions"; id: string }
  /** What putting back a file would change: `id` is the turn. */
  | { kind: "compare"; id: string; path: string }
  /** `id` is of the workflow. */
  | { kind: "plan"; id: string }
  /** All changed files of the conversation. */
  | { kind: "files" }
  /** What a page adds, such as the details of an answer. */
  | { kind: "details"; id: string };

interface Panel {
  view: PanelView | null;
  /** The user closed it: it opens only when asked to. */
  isClosedByHand: boolean;
  /** It covers the conversation. */
  isFull: boolean;
}

export const panel = createCell<Panel>({ view: null, isClosedByHand: false, isFull: false });

/** Show something because the user wants to see it. */
export function openPanel(view: PanelView): void {
  panel.set(({ isFull }) => ({ view, isClosedByHand: false, isFull }));
}

/** Show something because it has come up. */
export function offerPanel(view: PanelView): void {
  panel.set((before) => (before.isClosedByHand ? before : { ...before, view }));
}

export function closePanel(): void {
  panel.set({ view: null, isClosedByHand: true, isFull: false });
}

export function toggleFullPanel(): void {
  panel.set((before) => ({ ...before, isFull: !before.isFull }));
}

/** Another conversation is opened: what the panel shows belongs to the one before. */
export function resetPanel(): void {
  panel.set((before) => (before.view === null ? before : { ...before, view: null, isFull: false }));
}

export function isShown(view: PanelView | null, wanted: PanelView): boolean {
  return view?.kind === wanted.kind && ("id" in view ? view.id : "") === ("id" in wanted ? wanted.id : "");
}
