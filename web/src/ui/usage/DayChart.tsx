import { formatDate, formatMoney } from "@/i18n/format";
import { useT } from "../hooks";
import styles from "./Usage.module.css";

const DAY_MS = 86_400_000;

/** Cost by day as bars; the table beside it is the form for screen readers. Days without usage are empty places. */
export function DayChart({ first, last, costs }: { first: string; last: string; costs: ReadonlyMap<string, number> }) {
  const t = useT();
  const [start, end] = [Date.parse(first), Date.parse(last)];
  const days = Array.from({ length: Math.round((end - start) / DAY_MS) + 1 }, (_, place) => new Date(start + place * DAY_MS).toISOString().slice(0, 10));
  const highest = Math.max(...costs.values(), Number.MIN_VALUE);
  return (
    <figure aria-label={t("usage.byDay")}>
      <div className={styles.chart} aria-hidden="true">
        {days.map((day) => {
          const cost = costs.get(day) ?? 0;
          return <div key={day} className={styles.bar} style={{ height: `${(cost / highest) * 100}%` }} title={`${formatDate(`${day}T12:00`)}: ${formatMoney(cost)}`} />;
        })}
      </div>
      <figcaption className={styles.axis}>
        <span>{formatDate(`${first}T12:00`)}</span>
        <span>{formatDate(`${last}T12:00`)}</span>
      </figcaption>
    </figure>
  );
}
