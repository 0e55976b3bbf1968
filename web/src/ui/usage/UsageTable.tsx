import type { ReactNode } from "react";
import type { UsageSum } from "@/api/types";
import { formatCompact, formatMoney, formatNumber } from "@/i18n/format";
import { Table } from "../components";
import { useT } from "../hooks";
import styles from "./Usage.module.css";

/** The sums that matter. */
export function UsageFigures({ sum }: { sum: UsageSum }) {
  const t = useT();
  const figures: [string, string][] = [
    [t("usage.cost"), formatMoney(sum.cost_usd)],
    [t("usage.calls"), formatNumber(sum.calls)],
    [t("usage.input"), formatCompact(sum.input_tokens)],
    [t("usage.output"), formatCompact(sum.output_tokens)],
  ];
  return (
    <>
      <dl className={styles.figures}>
        {figures.map(([name, value]) => (
          <div key={name} className={styles.figure}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {sum.unpriced_calls > 0 && <p className="muted small">{t("usage.unpriced", { count: sum.unpriced_calls })}</p>}
    </>
  );
}

interface UsageTableProps<R extends UsageSum> {
  title: string;
  /** Title of the first column. */
  of: string;
  rows: readonly R[];
  rowKey: (row: R) => string | number;
  name: (row: R) => ReactNode;
}

/** Usage by something: what it was, calls, tokens, cost. */
export function UsageTable<R extends UsageSum>({ title, of, rows, rowKey, name }: UsageTableProps<R>) {
  const t = useT();
  if (!rows.length) return null;
  return (
    <section className="stack" aria-label={title}>
      <h2>{title}</h2>
      <Table
        isEven
        caption={title}
        rows={rows}
        rowKey={rowKey}
        columns={[
          { key: "name", title: of, cell: (row) => <span className="data">{name(row)}</span> },
          { key: "calls", title: t("usage.calls"), isNumber: true, cell: ({ calls }) => formatNumber(calls) },
          { key: "input", title: t("usage.input"), isNumber: true, cell: ({ input_tokens }) => formatCompact(input_tokens) },
          { key: "output", title: t("usage.output"), isNumber: true, cell: ({ output_tokens }) => formatCompact(output_tokens) },
          { key: "cost", title: t("usage.cost"), isNumber: true, cell: ({ cost_usd, calls, unpriced_calls }) => (unpriced_calls === calls ? "–" : formatMoney(cost_usd)) },
        ]}
      />
    </section>
  );
}
