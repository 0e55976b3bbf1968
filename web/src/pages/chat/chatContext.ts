import { createContext, useContext } from "react";
import type { Conversation } from "@/state/session/conversation";

export interface ChatContextValue {
  conversation: Conversation;
  /** Message that is being edited to be sent again. */
  editing: string | null;
  setEditing: (messageId: string | null) => void;
}

export const ChatContext = createContext<ChatContextValue | null>(null);

export function useChat(): ChatContextValue {
  const value = useContext(ChatContext);
  if (!value) throw new Error("No conversation is open");
  return value;
}
