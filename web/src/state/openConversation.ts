// The conversation on the screen. It stays the same object while its page is open, also when it has just been created.

import type { Conversation } from "./session/conversation";
import { createCell } from "./store";

export const openConversation = createCell<Conversation | null>(null);

/** An agent that the next composer of its project makes its recipient. */
export const nextRecipient = createCell<{ projectId: number; agent: string } | null>(null);

/** Close the conversation, when its page is left. */
export function closeConversation(): void {
  openConversation.get()?.close();
  openConversation.set(null);
}
