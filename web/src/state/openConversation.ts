// The conversation on the screen. It stays the same object while its page is open, also when it has just been created.

import { call } from "@/api/client";
import type { Session } from "@/api/types";
import { Conversation } from "./session/conversation";
import { createCell } from "./store";

export const openConversation = createCell<Conversation | null>(null);

/** Open a conversation, and close the one before; null closes. */
export function showConversation(id: string | null): void {
  const before = openConversation.get();
  if ((before?.id ?? null) === id) return;
  before?.close();
  const next = id === null ? null : new Conversation(id);
  openConversation.set(next);
  void next?.open();
}

/** Create a conversation and open it; its first message names it. */
export async function createConversation(projectId: number): Promise<{ session: Session; conversation: Conversation }> {
  const session = await call("POST /my/chat/sessions", { body: { project_id: projectId } });
  const conversation = new Conversation(session.session_id);
  openConversation.get()?.close();
  openConversation.set(conversation);
  void conversation.open();
  return { session, conversation };
}
