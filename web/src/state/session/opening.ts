// Opens conversations; apart from the cell that holds the open one, so that other pages don't load all this.

import { call } from "@/api/client";
import type { Session } from "@/api/types";
import { closeConversation, openConversation } from "../openConversation";
import { Conversation } from "./conversation";

/** Open a conversation, and close the one before; null closes. */
export function showConversation(id: string | null): void {
  const before = openConversation.get();
  if ((before?.id ?? null) === id) return;
  closeConversation();
  if (id !== null) open(new Conversation(id));
}

/** Create a conversation and open it; its first message names it. The same key makes the same one. */
export async function createConversation(projectId: number, planMode: Session["plan_mode"], key: string): Promise<{ session: Session; conversation: Conversation }> {
  const session = await call("POST /my/chat/sessions", { body: { project_id: projectId, plan_mode: planMode, idempotency_key: key } });
  const conversation = new Conversation(session.session_id);
  openConversation.get()?.close();
  open(conversation);
  return { session, conversation };
}

function open(conversation: Conversation): void {
  openConversation.set(conversation);
  void conversation.open();
}
