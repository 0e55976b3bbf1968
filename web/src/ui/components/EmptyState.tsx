import type { ReactNode } from "react";
import type { Problem } from "@/api/problem";
import { problemText } from "@/i18n/problemText";
import { useT } from "../hooks";
import { Button } from "./Button";
import styles from "./EmptyState.module.css";
import { Prose } from "./Prose";

/** Says why there is nothing, and what to do about it. */
export function EmptyState({ title, text, icon, children }: { title: string; text?: string; icon?: ReactNode; children?: ReactNode }) {
  return (
    <div className={styles.empty}>
      {icon && <div className={styles.icon}>{icon}</div>}
      <h2>{title}</h2>
      {text && (
        <p className="muted">
          <Prose text={text} />
        </p>
      )}
      {children}
    </div>
  );
}

/** Says that loading failed, and offers to try again. */
export function LoadFailed({ problem, retry }: { problem: Problem; retry: () => void }) {
  const t = useT();
  return (
    <div role="alert">
      <EmptyState title={t("errors.loadFailed")} text={problemText(problem)}>
        <Button onClick={retry}>{t("common.retry")}</Button>
      </EmptyState>
    </div>
  );
}
