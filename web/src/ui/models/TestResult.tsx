import { CircleAlert, CircleCheck } from "lucide-react";
import type { ProviderTestResult } from "@/api/types";
import { formatDuration } from "@/i18n/format";
import { Prose } from "../components";
import { useT } from "../hooks";
import styles from "./Models.module.css";

/** What a test of a provider found; always with the address that was tried, which most errors name themselves. */
export function TestResult({ result }: { result: ProviderTestResult }) {
  const t = useT();
  if (result.ok) {
    return (
      <div role="status" className={styles.passed}>
        <CircleCheck aria-hidden="true" size={18} />
        <div>
          <p>
            {result.latency_ms === null ? t("models.answers") : t("models.answersIn", { time: formatDuration(result.latency_ms) })} · {t("models.count", { count: result.models.length })}
          </p>
          <p className="muted small data">{t("models.tried", { address: result.url })}</p>
        </div>
      </div>
    );
  }
  return (
    <div role="alert" className={styles.refused}>
      <CircleAlert aria-hidden="true" size={18} />
      <div>
        <p className="data">{result.error && <Prose text={result.error} />}</p>
        {!result.error?.includes(result.url) && <p className="small data">{t("models.tried", { address: result.url })}</p>}
      </div>
    </div>
  );
}
