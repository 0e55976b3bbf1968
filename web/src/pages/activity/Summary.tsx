import { CircleCheck, CircleDollarSign, Gauge, TriangleAlert } from "lucide-react";
import type { Activity, SpaceHealth } from "@/api/types";
import { formatDuration, formatMoney, formatPercent } from "@/i18n/format";
import { tOr } from "@/i18n";
import { useProject, useT } from "@/ui/hooks";
import { Link } from "@/ui/router";
import { paths } from "@/ui/routes";
import styles from "./Activity.module.css";

/** The three lines that matter: health, money, answers. */
export function Summary({ health, activity }: { health: SpaceHealth; activity: Activity }) {
  const t = useT();
  const { id } = useProject();
  const { month, totals } = activity;
  const isHealthy = health.status === "healthy";
  const isOver = month.limit_usd !== null && month.spent_usd >= month.limit_usd;
  const spent = formatMoney(month.spent_usd);
  return (
    <ul role="list" className={styles.summary}>
      <li className={isHealthy ? styles.good : styles.bad}>
        {isHealthy ? <CircleCheck aria-hidden="true" size={20} /> : <TriangleAlert aria-hidden="true" size={20} />}
        <div>
          <strong>{health.status === "degraded" ? t("activity.problems", { count: health.details.length }) : t(isHealthy ? "activity.healthy" : "activity.unhealthy")}</strong>
          {health.details.map(({ part, message }, place) => (
            <p key={`${part} ${place}`} className="small">
              <span className="data">{message}</span> <span className="muted">{t("activity.todo", { advice: tOr(`activity.advice_${part}`, t("activity.advice_other")) })}</span>
            </p>
          ))}
        </div>
      </li>
      <li className={isOver ? styles.bad : undefined}>
        <CircleDollarSign aria-hidden="true" size={20} />
        <div>
          <strong>{month.limit_usd === null ? t("activity.month", { spent }) : t("activity.monthOf", { spent, limit: formatMoney(month.limit_usd) })}</strong>
          {month.limit_usd !== null && <progress className={styles.budget} max={month.limit_usd} value={Math.min(month.spent_usd, month.limit_usd)} aria-hidden="true" />}
          {isOver && (
            <p className="small">
              {t("activity.overBudget")} <Link to={paths.projectSettings(id, "approvals")}>{t("activity.changeBudget")}</Link>
            </p>
          )}
        </div>
      </li>
      <li>
        <Gauge aria-hidden="true" size={20} />
        <div>
          <strong>
            {totals.messages === 0
              ? t("activity.noAnswers")
              : t("activity.answers", { time: totals.p95_ms === null ? "–" : formatDuration(totals.p95_ms), share: formatPercent(totals.failed / totals.messages) })}
          </strong>
        </div>
      </li>
    </ul>
  );
}
