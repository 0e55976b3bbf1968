import { useState } from "react";
import { Problem } from "@/api/problem";
import type { Session, SessionChanges } from "@/api/types";
import { leadingMention } from "@/state/completion";
import type { Conversation } from "@/state/session/conversation";
import { emptySession } from "@/state/session/types";
import { createCell } from "@/state/store";
import { agentHandle } from "@/ui/agents";
import { useProjectState, useSelected } from "@/ui/hooks";

export const AUTO = "";
/** The state of a conversation that does not exist yet. */
export const nothing = createCell(emptySession(""));

export interface Recipient {
  /** Name of an agent; AUTO for none. */
  name: string;
  set: (agent: string | null) => void;
  /** Who gets a text: an agent that it begins with, else the chosen one. */
  of: (text: string) => string | null;
}

/** Who gets the messages: it belongs to the conversation, in all tabs. */
export function useRecipient(conversation: Conversation | null): Recipient {
  const { project } = useProjectState();
  const [chosen, choose] = useOwn(conversation, (session) => session?.recipient ?? null, (recipient) => ({ recipient }), conversation?.lastTarget);
  const of = (text: string) => {
    const handle = leadingMention(text)?.toLowerCase();
    const mentioned = project?.agents.find((agent) => [agent.name.toLowerCase(), agentHandle(agent.name).toLowerCase()].includes(handle ?? ""));
    return mentioned?.name ?? chosen;
  };
  return { name: chosen ?? AUTO, set: choose, of };
}

export type PlanMode = Session["plan_mode"];

/** When plans are made and asked about: it belongs to the conversation, in all tabs. */
export function usePlanMode(conversation: Conversation | null): [PlanMode, (mode: PlanMode) => void] {
  return useOwn(conversation, (session) => session?.plan_mode ?? "auto", (plan_mode) => ({ plan_mode }));
}

/**
 * Return a value of the conversation, and a function that changes it. What was chosen here counts until the server tells
 * something else; `before` is what was chosen before the conversation was there.
 */
function useOwn<V>(conversation: Conversation | null, read: (session: Session | null) => V, changes: (value: V) => SessionChanges, before?: V): [V, (value: V) => void] {
  const stored = useSelected(conversation?.store ?? nothing, (state) => read(state.session));
  const [chosen, setChosen] = useState<{ value: V; before: V } | null>(() => (before === undefined ? null : { value: before, before: stored }));
  const choose = (value: V) => {
    setChosen({ value, before: stored });
    conversation?.change(changes(value)).catch((failure: unknown) => {
      if (!(failure instanceof Problem)) throw failure; // the next message tells it
    });
  };
  return [chosen && chosen.before === stored ? chosen.value : stored, choose];
}
