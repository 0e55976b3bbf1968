import type { Subject } from "@/state/decisions";
import { classes } from "@/ui/components";
import { useT } from "@/ui/hooks";
import { Visible } from "./Visible";
import { warningText } from "./warningText";
import styles from "./Decisions.module.css";

/** What must be known before a decision; announced when it appears. */
export function Warnings({ subject }: { subject: Subject }) {
  const t = useT();
  const { hidden, warnings, isHighRisk } = subject;
  if (!hidden && !warnings.length && !isHighRisk) return null;
  return (
    <div className={styles.warning} role="alert">
      {isHighRisk && <p className={styles.danger}>{t("decisions.highRisk")}</p>}
      {warnings.map((text) => (
        <p key={text} className="data">
          <Visible text={warningText(text, subject)} />
        </p>
      ))}
      {hidden && (
        <p className={classes(styles.danger)}>{t("decisions.hidden", { count: hidden.count, names: hidden.names, sample: hidden.shownAs })}</p>
      )}
    </div>
  );
}

/** "+11 −3" in colours, in words for screen readers. */
export function Size({ added, removed }: { added: number; removed: number }) {
  const t = useT();
  return (
    <span>
      <span aria-hidden="true">
        <span className={styles.added}>+{added}</span> <span className={styles.removed}>−{removed}</span>
      </span>
      <span className="unseen">{t("decisions.addedRemoved", { added, removed })}</span>
    </span>
  );
}
