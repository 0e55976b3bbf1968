// The one price of a plan that is shown: "About $0.52, at most $5.56".

import type { ApprovalState, WorkflowState } from "@/api/types";
import { t } from "@/i18n";
import { formatAtMost, formatDuration, formatMoney } from "@/i18n/format";
import { visible } from "@/state/visible";

export interface Price {
  estimated_cost: number | null;
  estimated_cost_high: number | null;
  estimated_duration: number | null;
  unknown_prices?: readonly string[];
}

export function priceText({ estimated_cost: about, estimated_cost_high: high, unknown_prices: unknown = [] }: Price): string {
  if (high === null) return "";
  if (about === null) return unknown.length ? t("plans.priceUnknownOf", { models: visible(unknown.join(", ")) }) : t("plans.priceUnknown");
  if (high === 0) return t("plans.priceFree");
  return t("plans.price", { about: formatMoney(about), most: formatAtMost(high) });
}

/** Return "About $0.52, at most $5.56 · about 1 min". */
export function estimateText(price: Price): string {
  const seconds = price.estimated_duration ?? 0;
  const unit = seconds < 60 ? 1 : 60; // it is only a guess
  const time = seconds ? t("plans.duration", { time: formatDuration(Math.max(1, Math.round(seconds / unit)) * unit * 1000) }) : "";
  return [priceText(price), time].filter(Boolean).join(" · ");
}

export function stopsAtText({ estimated_cost_high: high }: Price, limit: number | null): string {
  const most = limit !== null && high !== null ? Math.min(limit, high) : high;
  return most ? t("plans.stopsAt", { most: formatAtMost(most) }) : "";
}

const FAR = 5; // times the expected price: then a lower limit is offered
const ROUND = [1, 2, 5, 10] as const;

/** Return a round limit with room above the expected price, if the plan may cost much more than that; else null. */
export function limitOffer({ estimated_cost: about, estimated_cost_high: high }: Price): number | null {
  if (about === null || high === null || about <= 0 || high <= FAR * about) return null;
  const wanted = about * 1.5;
  const unit = 10 ** Math.floor(Math.log10(wanted));
  const limit = Number(((ROUND.find((step) => step * unit >= wanted) ?? 10) * unit).toPrecision(3));
  return limit < high ? limit : null;
}

export function spentText({ cost, agreed_cost: agreed }: WorkflowState): string {
  const spent = formatMoney(cost ?? 0);
  return agreed ? t("plans.spent", { spent, agreed: formatAtMost(agreed) }) : t("plans.spentOnly", { spent });
}

/** Return the price that a question names, else that of the plan. */
export function priceOf(plan: WorkflowState, approval: ApprovalState | null): Price {
  const details = approval?.kind === "plan" ? (approval.details as Partial<Price>) : {};
  return {
    estimated_cost: details.estimated_cost === undefined ? plan.estimated_cost : details.estimated_cost,
    estimated_cost_high: details.estimated_cost_high ?? plan.estimated_cost_high,
    estimated_duration: details.estimated_duration ?? plan.estimated_duration,
    unknown_prices: details.unknown_prices ?? [],
  };
}

export function amountOf(approval: ApprovalState, name: string): string {
  const value = approval.details[name];
  return formatMoney(typeof value === "number" ? value : null);
}
