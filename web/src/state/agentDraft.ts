// Changes of agents that are not saved yet. They survive a look at another page, not a reload.

import type { Agent, AgentChanges, NewAgent } from "@/api/types";
import { createCell } from "./store";

export const agentDrafts = createCell<Readonly<Record<number, AgentChanges>>>({});

/** Note a change; what is again as it was saved is no change. */
export function changeDraft(agent: Agent, change: AgentChanges): void {
  agentDrafts.set((drafts) => ({ ...drafts, [agent.id]: differences(agent, { ...drafts[agent.id], ...change }) }));
}

export function discardDraft(id: number): void {
  agentDrafts.set((drafts) => Object.fromEntries(Object.entries(drafts).filter(([key]) => key !== String(id))));
}

/** Return the agent as it would be with the changes. */
export function withDraft(agent: Agent, draft: AgentChanges | undefined): Agent {
  if (!draft) return agent;
  return { ...agent, ...draft, loop: { ...agent.loop, ...draft.loop }, fallback: { ...agent.fallback, ...draft.fallback } };
}

export function hasChanges(draft: AgentChanges | undefined): draft is AgentChanges {
  return draft !== undefined && Object.keys(draft).length > 0;
}

/** Return only what differs from the agent. */
export function differences(agent: Agent, draft: AgentChanges): AgentChanges {
  const saved = agent as unknown as Record<string, unknown>;
  return Object.fromEntries(Object.entries(draft).filter(([name, value]) => !isSame(value, saved[name])));
}

// Part by part: a changed loop names only some of its fields, and the order of tools means nothing.
function isSame(value: unknown, saved: unknown): boolean {
  if (Array.isArray(value) && Array.isArray(saved)) return JSON.stringify(value.toSorted()) === JSON.stringify(saved.toSorted());
  if (typeof value === "object" && value !== null && typeof saved === "object" && saved !== null) {
    const fields = saved as Record<string, unknown>;
    return Object.entries(value).every(([name, part]) => isSame(part, fields[name]));
  }
  return value === saved;
}

/** Return a copy of an agent under a name that no other has. */
export function copyOf(agent: Agent, taken: readonly string[]): NewAgent {
  const { role, model, temperature, max_tokens, system_prompt, tools, concurrency_limit, capabilities, memory, runtime, loop, fallback } = agent;
  return { name: freeName(agent.name, taken), role, model, temperature, max_tokens, system_prompt, tools, concurrency_limit, capabilities, memory, runtime, loop, fallback };
}

/** Return the name itself, or with the first number that makes it unique. */
export function freeName(name: string, taken: readonly string[]): string {
  const used = new Set(taken.map((each) => each.toLowerCase()));
  if (!used.has(name.toLowerCase())) return name;
  const stem = name.replace(/_\d+$/, "");
  for (let number = 2; ; number += 1) if (!used.has(`${stem}_${number}`.toLowerCase())) return `${stem}_${number}`;
}
