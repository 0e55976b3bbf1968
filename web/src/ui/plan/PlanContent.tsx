import { ListTree, Network } from "lucide-react";
import { type ReactNode, useState } from "react";
import type { ApprovalState, WorkflowState } from "@/api/types";
import { tOr } from "@/i18n";
import { formatDuration, formatMoney } from "@/i18n/format";
import { preferences, setPreference } from "@/state/preferences";
import { isPlanOver, planStatus } from "@/state/session/plans";
import { hiddenIn } from "@/state/visible";
import { IconButton, Tooltip } from "@/ui/components";
import { Visible } from "@/ui/decisions/Visible";
import { PHONE, useCell, useMedia, useT } from "@/ui/hooks";
import { PlanEditor } from "./PlanEditor";
import { PlanGraph, PlanList } from "./PlanTasks";
import { TaskDetail } from "./TaskDetail";
import { amountOf, estimateText, limitOffer, priceOf, spentText, stopsAtText } from "./price";
import type { PlanEdit } from "./usePlanEdit";
import styles from "./Plan.module.css";

interface ContentProps {
  plan: WorkflowState;
  approval: ApprovalState | null;
  edit: PlanEdit;
  agents: readonly string[];
  /** What tasks are writing, by task. */
  words: Readonly<Record<string, string>>;
  /** What a task did with its tools. */
  callsOf?: (taskId: string) => ReactNode;
}

/** A plan: price, tasks as a graph or a list, one task in full, or the editor. */
export function PlanContent({ plan, approval, edit, agents, words, callsOf }: ContentProps) {
  const [opened, setOpened] = useState<string | null>(null);
  const { planList } = useCell(preferences);
  const isPhone = useMedia(PHONE);
  const task = plan.tasks.find(({ id }) => id === opened);
  if (task && edit.tasks === null) return <TaskDetail plan={plan} task={task} words={words[task.id] ?? ""} agents={agents} calls={callsOf?.(task.id)} onBack={() => setOpened(null)} />;
  // Before a decision everything is read: the list has the whole text of every task.
  const isList = planList || isPhone || approval?.kind === "plan";
  const hasBegun = plan.started_at !== null;
  return (
    <div className={styles.plan}>
      <PlanFacts plan={plan} approval={approval} edit={edit} />
      <PlanWarnings plan={plan} approval={approval} edit={edit} />
      {!isPhone && edit.tasks === null && approval?.kind !== "plan" && <ViewSwitch isList={isList} />}
      {edit.tasks !== null ? (
        <PlanEditor tasks={edit.tasks} agents={agents} onChange={edit.change} />
      ) : isList ? (
        <PlanList tasks={plan.tasks} hasBegun={hasBegun} onOpen={setOpened} />
      ) : (
        <PlanGraph tasks={plan.tasks} hasBegun={hasBegun} onOpen={setOpened} />
      )}
    </div>
  );
}

function ViewSwitch({ isList }: { isList: boolean }) {
  const t = useT();
  return (
    <div className={styles.views}>
      <IconButton label={t("plans.graph")} isPressed={!isList} onClick={() => setPreference("planList", false)}>
        <Network aria-hidden="true" size={16} />
      </IconButton>
      <IconButton label={t("plans.list")} isPressed={isList} onClick={() => setPreference("planList", true)}>
        <ListTree aria-hidden="true" size={16} />
      </IconButton>
    </div>
  );
}

function PlanFacts({ plan, approval, edit }: Pick<ContentProps, "plan" | "approval" | "edit">) {
  const t = useT();
  if (isPlanOver(plan)) {
    const time = plan.started_at && plan.finished_at ? t("plans.took", { time: formatDuration(Date.parse(plan.finished_at) - Date.parse(plan.started_at)) }) : "";
    const cost = plan.cost === null && plan.status !== "completed" ? "" : t("plans.costs", { cost: formatMoney(plan.cost) });
    return <p className="muted">{[tOr(`plans.status_${planStatus(plan)}`, plan.status), cost, time].filter(Boolean).join(" · ")}</p>;
  }
  if (approval === null && plan.started_at !== null) {
    const share = plan.agreed_cost ? Math.min(1, (plan.cost ?? 0) / plan.agreed_cost) : 0;
    return (
      <div className="stack">
        <p>{spentText(plan)}</p>
        {plan.agreed_cost !== null && plan.agreed_cost > 0 && (
          <div className={styles.meter} role="meter" aria-label={spentText(plan)} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(share * 100)}>
            <div className={styles.meterFill} style={{ width: `${share * 100}%` }} />
          </div>
        )}
      </div>
    );
  }
  const price = edit.price ?? priceOf(plan, approval);
  return (
    <div>
      <Tooltip text={t("plans.priceWhy")}>
        <p aria-live="polite">
          <strong>{edit.isPricing ? t("plans.pricing") : estimateText(price)}</strong>
        </p>
      </Tooltip>
      <p className="muted small">{stopsAtText(price, edit.limit)}</p>
      {approval?.kind === "plan" && <LimitOffer offer={limitOffer(price)} edit={edit} />}
    </div>
  );
}

/** The plan may cost much more than is likely: the user can agree to less, and is asked again there. */
function LimitOffer({ offer, edit }: { offer: number | null; edit: PlanEdit }) {
  const t = useT();
  if (offer === null && edit.limit === null) return null;
  const limit = edit.limit ?? offer;
  return (
    <label className={styles.limit}>
      <input type="checkbox" checked={edit.limit !== null} onChange={(event) => edit.setLimit(event.target.checked ? limit : null)} />
      {t("plans.limitTo", { most: formatMoney(limit) })}
    </label>
  );
}

/** What must be known before a decision. */
function PlanWarnings({ plan, approval, edit }: Pick<ContentProps, "plan" | "approval" | "edit">) {
  const t = useT();
  const changed = Array.isArray(approval?.details["changed"]) ? approval.details["changed"].map(String) : [];
  const hidden = hiddenIn(...plan.tasks.flatMap(({ id, agent, description }) => [id, agent, description]), ...changed);
  return (
    <div role="alert">
      {hidden && <p className={styles.error}>{t("decisions.hidden", { count: hidden.count, names: hidden.names, sample: hidden.shownAs })}</p>}
      {typeof approval?.details["month_left"] === "number" && <p className={styles.warning}>{t("plans.monthLeft", { left: amountOf(approval, "month_left") })}</p>}
      {changed.length > 0 && (
        <>
          <p className={styles.warning}>{t("plans.changed")}</p>
          <ul>
            {changed.map((text) => (
              <li key={text} className="data small">
                <Visible text={text} />
              </li>
            ))}
          </ul>
        </>
      )}
      {edit.mistake !== null && <p className={styles.error}>{edit.mistake}</p>}
    </div>
  );
}
