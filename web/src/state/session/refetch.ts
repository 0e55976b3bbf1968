// What has to be loaded after an event: the event says that something happened, the server's lists say what.

import type { SessionEvent } from "@/api/types";
import { planOfTurn } from "./plans";
import type { SessionState } from "./types";

export interface Refetch {
  timeline: boolean;
  approvals: boolean;
  session: boolean;
  /** Ids of workflows. */
  plans: readonly string[];
}

const TIMELINE: readonly string[] = ["tool_result", "approval_resolved", "approval_timeout", "turn_completed", "turn_failed", "turn_cancelled"];
const APPROVALS: readonly string[] = ["tool_request", "plan_request"];
const ENDS: readonly string[] = ["turn_completed", "turn_failed", "turn_cancelled"];
const OF_PLAN: readonly string[] = [...ENDS, "approval_resolved", "approval_timeout", "tool_request", "task_completed", "task_failed"];

/** Return what to load after these events; `state` is the one after them. */
export function refetchAfter(state: SessionState, events: readonly SessionEvent[]): Refetch {
  const plans = new Set<string>();
  for (const event of events) {
    if (event.type === "task_plan_created" || event.type === "plan_request") plans.add(event.workflow_id);
    else if (event.type === "task_progress" && event.workflow_id && ["planning", "retry"].includes(event.phase)) plans.add(event.workflow_id);
    else if (OF_PLAN.includes(event.type)) {
      const plan = planOfTurn(state, event.turn_id);
      if (plan) plans.add(plan.id);
    }
  }
  const has = (types: readonly string[]) => events.some(({ type }) => types.includes(type));
  return { timeline: has(TIMELINE), approvals: has(APPROVALS), session: has(ENDS), plans: [...plans] };
}
