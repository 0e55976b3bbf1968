// Questions to the user: what they are about, and the user's decision.

import { call } from "@/api/client";
import type { ApprovalChanges, ApprovalState, PlanPrice, TaskChange, TimelineItem, WorkflowState } from "@/api/types";
import { parseDiff, sizeOf } from "./diff";
import { refreshInbox } from "./inbox";
import { type PanelView } from "./panel";
import { type Hidden, hiddenIn } from "./visible";

export type Verb = "write" | "edit" | "delete" | "run" | "call" | "plan" | "budget";

export interface Subject {
  verb: Verb;
  /** The file, the command or the tool; not escaped. */
  target: string;
  /** What would be written or run, whole; not escaped. */
  content: string;
  isDiff: boolean;
  size: { added: number; removed: number } | null;
  hidden: Hidden | null;
  /** Sentences of the server or the connector that must be read before a decision. */
  warnings: string[];
  isHighRisk: boolean;
  /** What the approval may hold for besides this call; null if only for this one. */
  grant: string | null;
  /** Only the terminal where the folder is connected takes an approval. */
  isInTerminal: boolean;
  /** A file would be deleted whose content is kept for a while. */
  canBeUndone: boolean;
  /** Nothing would change, or the file would be empty: there is no diff to show. */
  isSame: boolean;
}

type Asked = Pick<ApprovalState, "kind" | "tool" | "arguments" | "details" | "risk">;

const VERBS: Readonly<Record<string, Verb>> = {
  tool_write_file: "write",
  tool_edit_file: "edit",
  tool_delete_file: "delete",
  tool_run_command: "run",
};
const SHORT_LINES = 3;
const SHORT_CHARACTERS = 240;
const FIRST_LINES = 5;

/** Return what a question is about. */
export function subjectOf(asked: Asked): Subject {
  const { details, arguments: given } = asked;
  const verb = asked.kind === "plan" || asked.kind === "budget" ? asked.kind : (VERBS[asked.tool] ?? "call");
  const isKnown = asked.tool in VERBS;
  const target = isKnown ? textOf(given["path"] ?? given["name"] ?? given) : asked.tool;
  const diff = typeof details["diff"] === "string" ? details["diff"] : null;
  const content = diff ?? (isKnown ? wholeOf(given) : listed(given));
  const isFile = ["write", "edit", "delete"].includes(verb);
  const isDiff = isFile && content !== "";
  const canBeUndone = verb === "delete" && typeof details["old_sha256"] === "string" && details["old_sha256"] !== "" && typeof details["warning"] !== "string";
  return {
    verb,
    target,
    content,
    isDiff,
    size: isDiff ? sizeOf(content) : null,
    hidden: hiddenIn(target, content),
    warnings: ["warning", "notice", "reason"].flatMap((name) => (typeof details[name] === "string" && details[name] !== "" ? [details[name]] : [])),
    isHighRisk: asked.risk === "high" && !canBeUndone,
    grant: typeof details["grant"] === "string" && details["grant"] !== "" ? details["grant"] : null,
    isInTerminal: details["where"] === "terminal",
    canBeUndone,
    isSame: diff === "" && details["old_sha256"] === details["new_sha256"],
  };
}

/** Return the first lines of a file that would be deleted, as the bar shows them; null for anything else. */
export function beginningOf({ verb, content, isDiff, target }: Subject): { lines: string[]; more: number } | null {
  if (verb !== "delete" || !isDiff) return null;
  const [file] = parseDiff(content, target);
  const lines = file?.hunks.flatMap((hunk) => hunk.lines.flatMap(({ kind, text }) => (kind === "removed" ? [text] : []))).slice(0, FIRST_LINES) ?? [];
  return { lines: lines.map((line) => shortened(line)), more: (file?.removed ?? 0) - lines.length };
}

function shortened(line: string): string {
  return line.length > SHORT_CHARACTERS ? `${line.slice(0, SHORT_CHARACTERS)}…` : line;
}

/** Return whether a content is so short that the bar itself shows it whole. */
export function isShort({ content, isDiff }: Subject): boolean {
  return !isDiff && content.length <= SHORT_CHARACTERS && content.replace(/\n$/, "").split("\n").length <= SHORT_LINES;
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value ?? null);
}

/** Return all arguments of a call; further lines of one are marked, or they might look like others. */
function listed(given: Readonly<Record<string, unknown>>): string {
  return Object.entries(given)
    .map(([name, value]) => `${name}: ${textOf(value)}`.replaceAll("\n", "\n  | "))
    .join("\n");
}

function wholeOf(given: Readonly<Record<string, unknown>>): string {
  const lines = (text: unknown, sign: string) =>
    textOf(text ?? "")
      .split("\n")
      .map((line) => sign + line)
      .join("\n");
  if (given["content"] !== undefined) return lines(given["content"], "+");
  return given["old"] === undefined ? "" : `${lines(given["old"], "-")}\n${lines(given["new"], "+")}`;
}

/** Return what the panel has to show before somebody can decide. */
export function viewOf(approval: Pick<ApprovalState, "id" | "kind" | "arguments">, plans: Readonly<Record<string, WorkflowState>> = {}): PanelView {
  if (approval.kind === "tool") return { kind: "question", id: approval.id };
  const workflow = approval.arguments["workflow_id"] ?? Object.values(plans).find(({ approval_id }) => approval_id === approval.id)?.id;
  return typeof workflow === "string" ? { kind: "plan", id: workflow } : { kind: "question", id: approval.id };
}

/** Return what the panel shows of a change; null if neither its diff nor a question about it is stored. */
export function viewOfChange(id: string, { path, has_diff, approval_id }: NonNullable<TimelineItem["file_change"]>): PanelView | null {
  if (has_diff) return { kind: "change", id, path: path ?? "" };
  return approval_id === null ? null : { kind: "question", id: approval_id };
}

/** Return the questions about files that an agent asks in the same turn as this one, if they can be answered together. */
export function together(approvals: readonly ApprovalState[], one: ApprovalState): readonly ApprovalState[] {
  const isFile = (approval: ApprovalState) => {
    const { verb, isInTerminal } = subjectOf(approval);
    return ["write", "edit"].includes(verb) && !isInTerminal;
  };
  if (!isFile(one)) return [];
  return approvals.filter((other) => other.turn_id === one.turn_id && other.agent_id === one.agent_id && isFile(other));
}

// --- The user's decision ---

export type Holds = NonNullable<ApprovalChanges["holds"]>;

export async function allow(id: string, holds: Holds = "once"): Promise<void> {
  await call("POST /my/approvals/{approval_id}/confirm", { path: { approval_id: id }, body: { decision: "approve", changes: { holds } } });
  refreshInbox();
}

export async function refuse(id: string, feedback: string): Promise<void> {
  await call("POST /my/approvals/{approval_id}/confirm", { path: { approval_id: id }, body: { decision: "reject", feedback } });
  refreshInbox();
}

/** Agree to a plan, with changes and a note for all its tasks; `limit` is a lower price at which it stops and asks. */
export async function approvePlan(id: string, tasks: NonNullable<ApprovalChanges["tasks"]>, instruction: string, limit: number | null = null): Promise<void> {
  const changes = { tasks, ...(limit === null ? {} : { limit_usd: limit }) };
  await call("POST /my/approvals/{approval_id}/confirm", { path: { approval_id: id }, body: { decision: "approve", instruction, changes } });
  refreshInbox();
}

export function pricePlan(id: string, tasks: NonNullable<ApprovalChanges["tasks"]>, signal: AbortSignal): Promise<PlanPrice> {
  return call("POST /my/approvals/{approval_id}/price", { path: { approval_id: id }, body: { changes: { tasks } } }, { signal });
}

const HALF_AN_HOUR = 1800;

export async function extend(id: string): Promise<ApprovalState> {
  const extended = await call("POST /my/approvals/{approval_id}/extend", { path: { approval_id: id }, body: { seconds: HALF_AN_HOUR } });
  refreshInbox();
  return extended;
}

/** Ask an expired question once more. */
export async function askAgain(id: string): Promise<ApprovalState> {
  const again = await call("POST /my/approvals/{approval_id}/ask-again", { path: { approval_id: id } });
  refreshInbox();
  return again;
}

/** Ask about an expired plan once more: its question may not be known here any more. */
export async function askPlanAgain(workflowId: string): Promise<void> {
  const { items } = await call("GET /my/approvals", { query: { status: "expired", limit: 100 } });
  const expired = items.find(({ kind, arguments: given }) => kind === "plan" && given["workflow_id"] === workflowId);
  if (expired) await askAgain(expired.id);
  else await goOn(workflowId);
}

/** Do again what was not done, with changes of those tasks. */
export async function goOn(workflowId: string, tasks: readonly TaskChange[] = []): Promise<void> {
  await call("POST /my/workflows/{workflow_id}/retry", { path: { workflow_id: workflowId }, body: { tasks: [...tasks] } });
}

export async function stopPlan(workflowId: string): Promise<void> {
  await call("POST /my/workflows/{workflow_id}/cancel", { path: { workflow_id: workflowId } });
}
