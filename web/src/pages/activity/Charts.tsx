import type { Activity, ActivityBucket, SpaceState } from "@/api/types";
import { formatCompact, formatDate, formatDuration, formatMoment, formatMoney, formatNumber, formatTime } from "@/i18n/format";
import { Money, Table } from "@/ui/components";
import { useT } from "@/ui/hooks";
import styles from "./Activity.module.css";
import { HEIGHT, WIDTH, barsOf, lineOf, peakOf, workOf } from "./series";

interface ChartProps {
  name: string;
  /** The sum over the whole time; null where a sum means nothing. */
  total: string | null;
  buckets: readonly { at: string }[];
  values: readonly (number | null)[];
  /** A second series in the same units: failed of all, median below p95. */
  lower?: readonly (number | null)[];
  kind: "bars" | "line";
  format: (value: number) => string;
}

/** Messages, time to answer and cost by hour or day. `ActivityTable` has the same figures. */
export function Charts({ activity: { buckets, totals } }: { activity: Activity }) {
  const t = useT();
  const of = <K extends keyof ActivityBucket>(key: K) => buckets.map((bucket) => bucket[key]);
  return (
    <div className={styles.charts}>
      <Chart name={t("activity.messages")} total={formatNumber(totals.messages)} buckets={buckets} values={of("messages")} kind="bars" format={formatNumber} />
      <Chart name={t("activity.failed")} total={formatNumber(totals.failed)} buckets={buckets} values={of("failed")} kind="bars" format={formatNumber} />
      <Chart name={t("activity.latency")} total={null} buckets={buckets} values={of("p95_ms")} lower={of("p50_ms")} kind="line" format={formatDuration} />
      <Chart name={t("activity.cost")} total={formatMoney(totals.cost_usd)} buckets={buckets} values={of("cost_usd")} kind="bars" format={formatMoney} />
    </div>
  );
}

function Chart({ name, total, buckets, values, lower, kind, format }: ChartProps) {
  const t = useT();
  const peak = peakOf(values);
  const top = peak?.value ?? 0;
  const at = (place: number) => buckets[place]?.at ?? "";
  const label = !peak
    ? t("activity.chartEmpty", { name })
    : total === null
      ? t("activity.chartPeak", { name, peak: format(top), time: formatMoment(at(peak.place)) })
      : t("activity.chartLabel", { name, total, peak: format(top), time: formatMoment(at(peak.place)) });
  return (
    <figure className={styles.chart}>
      <figcaption>
        <span>{name}</span>
        <strong>{total ?? (peak ? format(top) : "–")}</strong>
      </figcaption>
      <div className={styles.plot}>
        {peak && <span className={styles.top}>{format(top)}</span>}
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
          <line x1="0" x2={WIDTH} y1={HEIGHT} y2={HEIGHT} className={styles.ground} />
          {kind === "bars" ? (
            barsOf(values, top).map((bar, place) => (
              <g key={at(place)} className={styles.bucket}>
                <rect x={(place * WIDTH) / values.length} y={0} width={WIDTH / values.length} height={HEIGHT} className={styles.hit}>
                  <title>{`${formatMoment(at(place))}: ${format(values[place] ?? 0)}`}</title>
                </rect>
                <rect {...bar} className={styles.value} />
              </g>
            ))
          ) : (
            <>
              <path d={lineOf(values, top)} className={styles.line} />
              {lower && <path d={lineOf(lower, top)} className={styles.lower} />}
            </>
          )}
        </svg>
      </div>
      <div className={styles.axis} aria-hidden="true">
        <span>{edge(buckets[0], buckets)}</span>
        {lower && (
          <span className={styles.key}>
            <i /> {t("activity.latencyP95")} <i data-lower /> {t("activity.latencyMedian")}
          </span>
        )}
        <span>{edge(buckets.at(-1), buckets)}</span>
      </div>
    </figure>
  );
}

/** The clock for a day, else the date. */
function edge(bucket: { at: string } | undefined, buckets: readonly { at: string }[]): string {
  if (!bucket) return "";
  const hours = (Date.parse(buckets.at(-1)?.at ?? "") - Date.parse(buckets[0]?.at ?? "")) / 3_600_000;
  return hours <= 25 ? formatTime(bucket.at) : formatDate(bucket.at);
}

/** What the agents do: tasks under way and tasks finished, in the last hour. */
export function Work({ space, now }: { space: SpaceState; now: string }) {
  const t = useT();
  const samples = workOf(space, now);
  const finished = samples.map((sample) => sample.finished);
  const sum = finished.reduce((one, other) => one + other, 0);
  return (
    <section aria-labelledby="work" className="stack">
      <div>
        <h2 id="work">{t("activity.work")}</h2>
        <p className="muted small">{t("activity.agentsUp", { count: space.active_agents, time: formatDuration(space.uptime * 1000) })}</p>
      </div>
      <div className={styles.charts}>
        <Chart name={t("activity.underWay")} total={null} buckets={samples} values={samples.map((sample) => sample.active_tasks)} kind="bars" format={formatNumber} />
        <Chart name={t("activity.finished")} total={formatNumber(sum)} buckets={samples} values={finished} kind="bars" format={formatNumber} />
      </div>
    </section>
  );
}

export function ActivityTable({ activity: { buckets } }: { activity: Activity }) {
  const t = useT();
  const time = (ms: number | null) => (ms === null ? "–" : formatDuration(ms));
  return (
    <div className={styles.tall}>
      <Table
        caption={t("activity.title")}
        rows={[...buckets].reverse()}
        rowKey={({ at }) => at}
        columns={[
          { key: "at", title: t("activity.time"), cell: ({ at }) => formatMoment(at) },
          { key: "messages", title: t("activity.messages"), cell: ({ messages }) => formatNumber(messages), isNumber: true },
          { key: "failed", title: t("activity.failed"), cell: ({ failed }) => formatNumber(failed), isNumber: true },
          { key: "p50", title: t("activity.latencyMedian"), cell: ({ p50_ms }) => time(p50_ms), isNumber: true },
          { key: "p95", title: t("activity.latencyP95"), cell: ({ p95_ms }) => time(p95_ms), isNumber: true },
          { key: "cost", title: t("activity.cost"), cell: ({ cost_usd }) => <Money usd={cost_usd} />, isNumber: true },
          { key: "tokens", title: t("activity.tokens"), cell: ({ tokens }) => formatCompact(tokens), isNumber: true },
        ]}
      />
    </div>
  );
}
