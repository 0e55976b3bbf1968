import type { PageProps } from "@/App";
import { AgentList } from "./AgentList";
import { AgentProfile } from "./AgentProfile";

/** `/p/:project/agents[/:id]`: the team, or one of it. */
export default function AgentsPage({ route }: PageProps) {
  return route.id === null ? <AgentList /> : <AgentProfile key={route.id} id={Number(route.id)} />;
}
