// Memories of the whole project: found by a search, or the newest of every agent.

import { call } from "@/api/client";
import type { Agent, KnownMemory, Memory } from "@/api/types";

export interface Shown extends Memory {
  agent_id: number;
  agent: string;
  /** null in the list without a search. */
  score: number | null;
}

const FOUND = 50;
const NEWEST = 50;

/** Search the project, or list what was remembered last; pinned memories first in the list. */
export async function findMemories(projectId: number, agents: readonly Agent[], query: string, signal: AbortSignal): Promise<Shown[]> {
  if (query) {
    const { items } = await call("POST /my/projects/{project_id}/context/search", { path: { project_id: projectId }, body: { query, top_k: FOUND } }, { signal });
    return items.map((memory: KnownMemory) => memory);
  }
  const lists = await Promise.all(
    agents.map(async ({ id, name }) => {
      const { items } = await call("GET /my/projects/{project_id}/agents/{agent_id}/context", { path: { project_id: projectId, agent_id: id }, query: { limit: NEWEST } }, { signal });
      return items.map((memory): Shown => ({ ...memory, agent_id: id, agent: name, score: null }));
    }),
  );
  return newestFirst(lists.flat()).slice(0, NEWEST);
}

export function newestFirst(memories: readonly Shown[]): Shown[] {
  return [...memories].sort((one, other) => Number(other.pinned) - Number(one.pinned) || other.created_at.localeCompare(one.created_at));
}

/** Return those of one agent and kind; "" is any. */
export function filtered(memories: readonly Shown[], agentId: string, kind: string): Shown[] {
  return memories.filter((memory) => (agentId === "" || String(memory.agent_id) === agentId) && (kind === "" || memory.type === kind));
}
