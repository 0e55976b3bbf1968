// The settings of a project that the server uses, read from what is stored; other settings stay as they are.

import type { JsonValue } from "@/api/types";

type Settings = Record<string, JsonValue>;

export interface ApprovalSettings {
  askOverUsd: number;
  askFromTasks: number;
  approvalSeconds: number;
  /** null: no limit. */
  monthlyBudgetUsd: number | null;
}

// As the server has them for a project without settings.
const DEFAULTS: ApprovalSettings = { askOverUsd: 0.1, askFromTasks: 3, approvalSeconds: 300, monthlyBudgetUsd: null };

function objectOf(value: JsonValue): Settings {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Settings) : {};
}

function numberOf(value: JsonValue): number | null {
  return typeof value === "number" ? value : null;
}

export function readApprovals(settings: Settings): ApprovalSettings {
  const plans = objectOf(settings.plans);
  return {
    askOverUsd: numberOf(plans.approve_over_usd) ?? DEFAULTS.askOverUsd,
    askFromTasks: numberOf(plans.approve_from_tasks) ?? DEFAULTS.askFromTasks,
    approvalSeconds: numberOf(settings.approval_seconds) ?? DEFAULTS.approvalSeconds,
    monthlyBudgetUsd: numberOf(settings.monthly_budget_usd),
  };
}

export function withApprovals(settings: Settings, chosen: ApprovalSettings): Settings {
  const plans = { ...objectOf(settings.plans), approve_over_usd: chosen.askOverUsd, approve_from_tasks: chosen.askFromTasks };
  return { ...settings, plans, approval_seconds: chosen.approvalSeconds, monthly_budget_usd: chosen.monthlyBudgetUsd };
}

/** Return the settings with a changed rule of one tool. */
export function withToolRule(settings: Settings, tool: string, change: { enabled?: boolean; requires_approval?: boolean }): Settings {
  const tools = objectOf(settings.tools);
  return { ...settings, tools: { ...tools, [tool]: { ...objectOf(tools[tool]), ...change } } };
}

/** Return whether the rule of a tool says that it asks first; tools also ask by themselves. */
export function asksByRule(settings: Settings, tool: string): boolean {
  return objectOf(objectOf(settings.tools)[tool]).requires_approval === true;
}
