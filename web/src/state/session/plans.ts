// Plans of a conversation: what their events change at once. The server's word on a workflow is loaded soon after.

import type { SessionEvent, WorkflowState, WorkflowTaskState } from "@/api/types";
import type { Entry, SessionState } from "./types";

type EventOf<T extends SessionEvent["type"]> = Extract<SessionEvent, { type: T }>;
const OVER: readonly string[] = ["completed", "partial", "failed", "cancelled", "rejected", "timeout"];

/** Error code of a plan, and of its turn. */
export const PLAN_EXPIRED = "approval_timeout";

export function isPlanOver(plan: Pick<WorkflowState, "status">): boolean {
  return OVER.includes(plan.status);
}

/** Return whether nobody answered in time: the plan is kept, and can be asked about again. */
export function isPlanExpired({ status, error_code }: Pick<WorkflowState, "status" | "error_code">): boolean {
  return status === "timeout" && error_code === PLAN_EXPIRED;
}

export function planCreated(state: SessionState, event: EventOf<"task_plan_created">): SessionState {
  const id = event.workflow_id;
  const plan: WorkflowState = { ...emptyPlan(state, event), ...state.plans[id], plan_id: event.plan_id, tasks: event.tasks.map(newTask) };
  const priced: WorkflowState = {
    ...plan,
    status: "running",
    planned_by: event.planned_by,
    estimated_cost: event.estimated_cost,
    estimated_cost_low: event.estimated_cost_low,
    estimated_cost_high: event.estimated_cost_high,
    estimated_duration: event.estimated_duration,
  };
  const entry: Entry = {
    id,
    kind: "plan",
    at: event.timestamp,
    turn_id: event.turn_id,
    text: "",
    plan: { workflow_id: id, status: "running", tasks: plan.tasks.length, tasks_done: 0, tasks_refused: 0, error_code: null, cost: null, started_at: null, finished_at: null },
  };
  return {
    ...state,
    plans: { ...state.plans, [id]: priced },
    items: { ...state.items, [id]: state.items[id] ?? entry },
    touched: { ...state.touched, [id]: event.number },
  };
}

/** Return whether a task is done; one whose call was not approved has only answered. */
export function isTaskDone({ status, refused }: Pick<WorkflowTaskState, "status" | "refused">): boolean {
  return status === "completed" && !refused;
}

/** Return how a plan stands: `answered` if a call of it was not approved, `expired` if nobody approved it in time; else its status. */
export function planStatus(plan: Pick<WorkflowState, "status" | "error_code" | "tasks">): string {
  if (isPlanExpired(plan)) return "expired";
  return plan.status === "completed" && !plan.tasks.every(isTaskDone) ? "answered" : plan.status;
}

function newTask(task: EventOf<"task_plan_created">["tasks"][number]): WorkflowTaskState {
  return {
    ...task,
    agent_id: null,
    status: "pending",
    attempts: 0,
    cost: null,
    result: null,
    error: null,
    error_code: null,
    started_at: null,
    finished_at: null,
    refused: false,
  };
}

function emptyPlan(state: SessionState, event: EventOf<"task_plan_created">): WorkflowState {
  return {
    id: event.workflow_id,
    project_id: state.session?.project_id ?? 0,
    session_id: event.session_id,
    turn_id: event.turn_id ?? "",
    status: "running",
    request: "",
    instruction: "",
    plan_id: null,
    planned_by: null,
    tasks: [],
    estimated_cost: null,
    estimated_cost_low: null,
    estimated_cost_high: null,
    estimated_duration: null,
    agreed_cost: null,
    cost: null,
    approval_id: null,
    answer: null,
    error: null,
    error_code: null,
    graph: null,
    created_at: event.timestamp,
    started_at: null,
    finished_at: null,
  };
}

/** Return a plan whose tasks wait only while something is asked: when a task goes on, no event tells. */
export function shownPlan(plan: WorkflowState, approvals: SessionState["approvals"]): WorkflowState {
  const isAsked = (task: WorkflowTaskState) => approvals.some(({ kind, turn_id, details }) => turn_id === plan.turn_id && (kind !== "tool" || details["task_id"] === task.id));
  if (!plan.tasks.some((task) => task.status === "waiting" && !isAsked(task)) || isPlanOver(plan)) return plan;
  return { ...plan, tasks: plan.tasks.map((task) => (task.status === "waiting" && !isAsked(task) ? { ...task, status: "running" } : task)) };
}

/** Return the plan of a turn; one that was tried again belongs to the newest turn. */
export function planOfTurn(state: Pick<SessionState, "plans">, turnId: string | null): WorkflowState | undefined {
  return turnId === null ? undefined : Object.values(state.plans).find((plan) => plan.turn_id === turnId);
}

/** Change the task of an event, if it belongs to a plan. */
export function taskChanged(
  state: SessionState,
  event: SessionEvent & { task_id: string },
  change: Partial<WorkflowTaskState>,
): SessionState {
  const plan = planOfTurn(state, event.turn_id);
  if (!plan?.tasks.some(({ id }) => id === event.task_id)) return state;
  const tasks = plan.tasks.map((task) => (task.id === event.task_id ? { ...task, ...change } : task));
  return withTasks(state, plan, tasks, event.number);
}

/** A task has begun, so the plan was approved and runs. */
export function planStarted(state: SessionState, event: SessionEvent): SessionState {
  const plan = planOfTurn(state, event.turn_id);
  if (!plan || (plan.started_at !== null && plan.status === "running")) return state;
  return { ...state, plans: { ...state.plans, [plan.id]: { ...plan, status: "running", started_at: plan.started_at ?? event.timestamp } } };
}

/** A plan goes on in a new turn, whose events must find it even if they come before the plan is loaded again. */
export function planRetried(state: SessionState, event: EventOf<"task_progress">): SessionState {
  const plan = event.phase === "retry" && event.workflow_id ? state.plans[event.workflow_id] : undefined;
  if (!plan || event.turn_id === null) return state;
  const retried: WorkflowState = { ...plan, turn_id: event.turn_id, status: "running" };
  return { ...state, plans: { ...state.plans, [plan.id]: retried }, touched: { ...state.touched, [plan.id]: event.number } };
}

function withTasks(state: SessionState, plan: WorkflowState, tasks: WorkflowTaskState[], number: number): SessionState {
  const item = state.items[plan.id];
  const tasksDone = tasks.filter(isTaskDone).length;
  const items =
    item?.kind === "plan" ? { ...state.items, [plan.id]: { ...item, plan: { ...item.plan, tasks: tasks.length, tasks_done: tasksDone } } } : state.items;
  return { ...state, items, plans: { ...state.plans, [plan.id]: { ...plan, tasks } }, touched: { ...state.touched, [plan.id]: number } };
}
