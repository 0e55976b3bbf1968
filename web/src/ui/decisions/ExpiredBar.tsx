import { X } from "lucide-react";
import { useMemo, useState } from "react";
import { problemText } from "@/i18n/problemText";
import { askAgain, subjectOf } from "@/state/decisions";
import type { Conversation } from "@/state/session/conversation";
import type { EntryOf, SessionState } from "@/state/session/types";
import { memoize } from "@/state/store";
import { Button, IconButton, Prose, classes } from "@/ui/components";
import { useAction, useSelected, useT } from "@/ui/hooks";
import { Target } from "./Target";
import styles from "./Decisions.module.css";

/** A question that nobody answered in time, until the user goes on: it can be asked again. */
export function ExpiredBar({ conversation }: { conversation: Conversation }) {
  const t = useT();
  const [dismissed, setDismissed] = useState<string | null>(null);
  const select = useMemo(() => {
    const find = memoize(lastExpired);
    return (state: SessionState) => find(state.items);
  }, []);
  const entry = useSelected(conversation.store, select);
  const { run, isBusy, problem } = useAction(async (id: string) => {
    await askAgain(id);
  });
  if (!entry || entry.id === dismissed) return null;
  return (
    <section className={classes(styles.bar, styles.quietBar)} aria-label={t("decisions.region")}>
      <div className={styles.head}>
        <p className={styles.what}>
          {t("decisions.expired")}
          <Target subject={subjectOf(entry.approval)} />
        </p>
        <Button isBusy={isBusy} onClick={() => void run(entry.id)}>
          {t("decisions.askAgain")}
        </Button>
        <IconButton label={t("common.dismiss")} onClick={() => setDismissed(entry.id)}>
          <X aria-hidden="true" size={16} />
        </IconButton>
      </div>
      <p role="alert" className={styles.error}>
        {problem && <Prose text={problemText(problem)} />}
      </p>
    </section>
  );
}

/** Return the newest tool question, if it has expired and the user has said nothing since. Plans have a panel of their own. */
function lastExpired(items: SessionState["items"]): EntryOf<"approval"> | null {
  let last: EntryOf<"approval"> | null = null;
  let said = "";
  for (const entry of Object.values(items)) {
    if (entry.kind === "approval" && entry.approval.kind === "tool" && (last === null || entry.at > last.at)) last = entry;
    if (entry.kind === "message" && entry.message.role === "user" && entry.at > said) said = entry.at;
  }
  return last?.approval.status === "expired" && last.at > said ? last : null;
}
