import { X } from "lucide-react";
import { dismiss, toasts } from "@/state/toasts";
import { useCell, useT } from "../hooks";
import { Prose } from "./Prose";
import styles from "./Toasts.module.css";
import { classes } from "./classes";

/** The notices below the header; shown once in the shell. `toast` and `withUndo` of @/state/toasts add to it. */
export function Toasts() {
  const t = useT();
  const shown = useCell(toasts);
  return (
    <div className={styles.region} role="status" aria-live="polite" aria-label={t("shell.notifications")}>
      {shown.map(({ id, kind, text, action }) => (
        <div key={id} className={classes(styles.toast, kind === "error" && styles.error)}>
          <span className="data">
            <Prose text={text} />
          </span>
          {action && (
            <button type="button" className={styles.action} onClick={action.run}>
              {action.label}
            </button>
          )}
          <button type="button" className={styles.close} aria-label={t("common.dismiss")} onClick={() => dismiss(id)}>
            <X aria-hidden="true" size={16} />
          </button>
        </div>
      ))}
    </div>
  );
}
