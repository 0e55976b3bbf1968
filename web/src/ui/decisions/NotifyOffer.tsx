import { useState } from "react";
import { canAskForNotifications, turnOnNotifications } from "@/state/notifications";
import { preferences, setPreference } from "@/state/preferences";
import { toast } from "@/state/toasts";
import { Button, classes } from "@/ui/components";
import { useCell, useT } from "@/ui/hooks";
import styles from "./Decisions.module.css";

/** Asked once, at the first question: whether the browser may tell of the next ones. */
export function NotifyOffer() {
  const t = useT();
  const { notificationsAsked } = useCell(preferences);
  const [canAsk] = useState(canAskForNotifications);
  if (notificationsAsked || !canAsk) return null;
  const turnOn = async () => {
    if (!(await turnOnNotifications())) toast(t("decisions.notifyRefused"), { kind: "error" });
    setPreference("notificationsAsked", true);
  };
  return (
    <div className={classes(styles.actions, styles.offer)}>
      <span className="small muted">{t("decisions.notifyAsk")}</span>
      <Button kind="link" className="small" onClick={() => void turnOn()}>
        {t("decisions.notifyYes")}
      </Button>
      <Button kind="link" className="small" onClick={() => setPreference("notificationsAsked", true)}>
        {t("decisions.notifyNo")}
      </Button>
    </div>
  );
}
