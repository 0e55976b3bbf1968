import type { PageAlert } from "@/api/types";
import { tOr } from "@/i18n";
import { Ago, LoadFailed, Skeleton, classes } from "@/ui/components";
import { type Resource, useT } from "@/ui/hooks";
import styles from "./Activity.module.css";

/** Alerts with what to do about them; open ones first. */
export function Alerts({ alerts: { data, problem, reload } }: { alerts: Resource<PageAlert> }) {
  const t = useT();
  const items = [...(data?.items ?? [])].sort((one, other) => Number(one.resolved_at !== null) - Number(other.resolved_at !== null));
  return (
    <section aria-labelledby="alerts" className="stack">
      <h2 id="alerts">{t("activity.alerts")}</h2>
      {problem ? <LoadFailed problem={problem} retry={reload} /> : !data ? <Skeleton lines={2} /> : items.length === 0 && <p className="muted">{t("activity.alertsNone")}</p>}
      {items.length > 0 && (
        <ul role="list" className={styles.alerts}>
          {items.map(({ id, kind, severity, message, raised_at, resolved_at }) => (
            <li key={id} className={classes(resolved_at === null && (severity === "critical" ? styles.bad : styles.warn))}>
              <div className="row spread">
                <strong className="data">{message}</strong>
                <span className="muted small">
                  {resolved_at === null ? t("activity.alertOpen") : t("activity.alertResolved")} · <Ago at={resolved_at ?? raised_at} />
                </span>
              </div>
              {resolved_at === null && <p className="small">{t("activity.todo", { advice: tOr(`activity.advice_${kind}`, t("activity.advice_other")) })}</p>}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
