import { useEffect, useState } from "react";
import { isAbort } from "@/api/client";
import { Problem } from "@/api/problem";
import type { ApprovalState, PlanPrice, TaskChange, WorkflowState } from "@/api/types";
import { problemText } from "@/i18n/problemText";
import { tOr } from "@/i18n";
import { pricePlan } from "@/state/decisions";
import { type EditedTask, beginEdit, changesOf, mistakeOf } from "@/state/planEdit";

const SETTLE_MS = 400;

export interface PlanEdit {
  /** null while the plan is not edited. */
  tasks: EditedTask[] | null;
  changes: TaskChange[];
  /** Why the changed plan can't be approved. */
  mistake: string | null;
  price: PlanPrice | null;
  isPricing: boolean;
  /** A lower price at which the plan stops and asks, chosen by the user. */
  limit: number | null;
  setLimit: (limit: number | null) => void;
  begin: () => void;
  end: () => void;
  change: (tasks: EditedTask[]) => void;
}

/** The changes of a plan before its approval; the server computes the price and says what can't be. */
export function usePlanEdit(plan: WorkflowState | null, approval: ApprovalState | null): PlanEdit {
  const [tasks, setTasks] = useState<EditedTask[] | null>(null);
  const [priced, setPriced] = useState<{ key: string; price: PlanPrice | null; problem: string | null } | null>(null);
  const [limit, setLimit] = useState<number | null>(null);
  const changes = tasks && plan ? changesOf(plan.tasks, tasks) : [];
  const mistake = tasks ? mistakeOf(tasks) : null;
  const id = approval?.kind === "plan" ? approval.id : null;
  const key = tasks && id !== null && mistake === null && changes.length ? JSON.stringify(changes) : null;
  useEffect(() => {
    if (key === null || id === null) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      const run = async () => {
        try {
          setPriced({ key, price: await pricePlan(id, JSON.parse(key) as TaskChange[], stop.signal), problem: null });
        } catch (failure) {
          if (stop.signal.aborted || isAbort(failure)) return;
          if (!(failure instanceof Problem)) throw failure;
          setPriced({ key, price: null, problem: problemText(failure) });
        }
      };
      void run();
    }, SETTLE_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [key, id]);
  const isCurrent = key !== null && priced?.key === key;
  return {
    tasks,
    changes,
    mistake: mistake === null ? (isCurrent ? priced.problem : null) : tOr(`plans.mistake_${mistake}`, mistake),
    price: key === null ? null : (priced?.price ?? null),
    isPricing: key !== null && !isCurrent,
    limit,
    setLimit,
    begin: () => setTasks(beginEdit(plan?.tasks ?? [])),
    end: () => setTasks(null),
    change: setTasks,
  };
}
