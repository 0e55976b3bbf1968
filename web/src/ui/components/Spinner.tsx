import { useT } from "../hooks";
import styles from "./Spinner.module.css";

/** Shows that something runs; what it is must be said beside it. */
export function Spinner() {
  return <span className={styles.spinner} aria-hidden="true" />;
}

/** Takes the place of content that is being loaded. */
export function Skeleton({ lines = 4 }: { lines?: number }) {
  const t = useT();
  return (
    <div className={styles.skeleton} role="status">
      <span className="unseen">{t("common.loading")}</span>
      {Array.from({ length: lines }, (_, line) => (
        <div key={line} className={styles.bar} aria-hidden="true" />
      ))}
    </div>
  );
}
