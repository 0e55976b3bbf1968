// Finding a message of a conversation: whether the search field is open, and the message that is to be shown.

import { createCell } from "../store";
import type { Block } from "./blocks";

export interface Sought {
  sessionId: string;
  messageId: string;
  /** Grows: the same message can be sought again. */
  number: number;
}

/** The message that the timeline scrolls to and marks. */
export const sought = createCell<Sought | null>(null);

/** The conversation whose search field is open. */
export const findOpenIn = createCell<string | null>(null);

export function seek(sessionId: string, messageId: string): void {
  sought.set((before) => ({ sessionId, messageId, number: (before?.number ?? 0) + 1 }));
}

export function closeFind(): void {
  findOpenIn.set(null);
  sought.set(null);
}

/** Return whether a block shows a message; an answer may have several parts, and folded blocks are inside another. */
export function holds(block: Block, messageId: string): boolean {
  switch (block.kind) {
    case "user":
      return block.entry.id === messageId;
    case "answer":
      return block.parts.some(({ id }) => id === messageId);
    case "earlier":
      return block.blocks.some((inner) => holds(inner, messageId));
    default:
      return false;
  }
}
