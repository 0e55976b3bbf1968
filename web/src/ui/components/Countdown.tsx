import { formatClock } from "@/i18n/format";
import { useNow, useT } from "../hooks";

/** The time until a moment as a running clock; "Time is up" after it. */
export function Countdown({ until }: { until: string }) {
  const t = useT();
  const end = Date.parse(until);
  const now = useNow(1000);
  const seconds = (end - now) / 1000;
  if (seconds <= 0) return <span>{t("common.expired")}</span>;
  const clock = formatClock(seconds);
  return (
    <span role="timer" aria-label={t("common.timeLeft", { time: clock })}>
      {clock}
    </span>
  );
}
