import { formatDateTime, formatMoment, formatMoney, formatRelative } from "@/i18n/format";
import { useNow, useT } from "../hooks";

/** A time: the clock today, else date and clock; the whole date as a title. */
export function Moment({ at }: { at: string }) {
  useT();
  return (
    <time dateTime={at} title={formatDateTime(at)}>
      {formatMoment(at)}
    </time>
  );
}

/** A time as a distance, which grows: "5 min ago". */
export function Ago({ at }: { at: string }) {
  useT();
  const now = useNow(30_000);
  return (
    <time dateTime={at} title={formatDateTime(at)}>
      {formatRelative(at, now)}
    </time>
  );
}

/** An amount in dollars; null is an unknown price. */
export function Money({ usd }: { usd: number | null | undefined }) {
  useT();
  return <span>{formatMoney(usd)}</span>;
}
