import { FilePen, FileX, Undo2 } from "lucide-react";
import { memo } from "react";
import { t as translate, tOr } from "@/i18n";
import { formatNumber } from "@/i18n/format";
import { openPanel } from "@/state/panel";
import type { EntryOf } from "@/state/session/types";
import { toast } from "@/state/toasts";
import { visible } from "@/state/visible";
import { agentLabel } from "@/ui/agents";
import { Button, Moment, classes } from "@/ui/components";
import { useProjectState, useT } from "@/ui/hooks";
import { useChat } from "../chatContext";
import { useAttempt } from "../useAttempt";
import { subjectOf } from "./ActivityLine";
import styles from "./Timeline.module.css";

const STAYS: readonly string[] = ["changed_since", "not_kept", "failed"];

/** A file that an agent changed, with what was decided about it; or that the user put back. */
export const ChangeLine = memo(function ChangeLine({ entry, decision }: { entry: EntryOf<"file_change">; decision: EntryOf<"approval"> | null }) {
  return entry.file_change.action === "undo" ? <UndoLine entry={entry} /> : <Change entry={entry} decision={decision} />;
});

function Change({ entry, decision }: { entry: EntryOf<"file_change">; decision: EntryOf<"approval"> | null }) {
  const t = useT();
  const { conversation } = useChat();
  const { attempt, isBusy } = useAttempt();
  const { action, added, removed, undone, approval_id, agent } = entry.file_change;
  const path = entry.file_change.path ?? "";
  const Sign = action === "delete" ? FileX : FilePen;
  const undo = () =>
    attempt(async () => {
      if (entry.turn_id === null) return;
      const files = await conversation.undo(entry.turn_id, path);
      toast(outcomesOf(files));
    });
  return (
    <div className={styles.change} role="group" aria-label={tOr(`chat.changed_${action}`, path, { agent: agentLabel(agent), path: visible(path) })}>
      <Sign aria-hidden="true" size={15} />
      <span className={classes(styles.path, undone && styles.undone)}>{visible(path)}</span>
      {action === "delete" && <span className={styles.removed}>{t("chat.deleted")}</span>}
      {added !== null && action !== "delete" && <span className={styles.added}>+{formatNumber(added)}</span>}
      {removed !== null && action !== "delete" && <span className={styles.removed}>−{formatNumber(removed)}</span>}
      <span className={styles.faint}>{undone ? t("chat.putBack") : decision ? tOr(`chat.allowed_${decision.approval.holds ?? "once"}`, t("chat.allowed_once")) : null}</span>
      <span className={styles.changeActions}>
        {approval_id !== null && (
          <Button size="small" onClick={() => openPanel({ kind: "question", id: approval_id })}>
            {t("chat.diff")}
          </Button>
        )}
        {!undone && (
          <Button size="small" isBusy={isBusy} onClick={undo}>
            {t("common.undo")}
          </Button>
        )}
      </span>
    </div>
  );
}

function UndoLine({ entry }: { entry: EntryOf<"file_change"> }) {
  useT();
  const { files, path, status } = entry.file_change;
  const words =
    files.length > 0
      ? outcomesOf(files)
      : status === "done"
        ? path === null ? translate("chat.allPutBack") : translate("chat.filePutBack", { path: visible(path) })
        : status === "sent" || status === "unknown" ? translate("chat.undoUnknown") : translate("chat.undoFailed");
  return (
    <div className={styles.line}>
      <Undo2 aria-hidden="true" size={14} />
      <span className="data">{words}</span>
      <Moment at={entry.at} />
    </div>
  );
}

/** Return what became of files that were put back. */
function outcomesOf(files: readonly { path: string; outcome: string }[]): string {
  const sentences = files.map(({ path, outcome }) => {
    const values = { path: visible(path) };
    if (STAYS.includes(outcome)) return tOr(`chat.stays_${outcome}`, path, values);
    return outcome === "removed" ? translate("chat.fileRemoved", values) : translate("chat.filePutBack", values);
  });
  return sentences.join(" ");
}

/** What the user was asked, and decided. */
export const DecisionLine = memo(function DecisionLine({ entry }: { entry: EntryOf<"approval"> }) {
  const t = useT();
  const { project } = useProjectState();
  const { kind, tool, status, holds, feedback, decided_at, agent_id } = entry.approval;
  const agent = agentLabel(project?.agents.find(({ id }) => id === agent_id)?.name ?? "") || t("chat.anAgent");
  const what = subjectOf(entry.approval.arguments);
  const wanted = kind === "tool" ? tOr(`chat.wanted_${tool}`, t("chat.wantedOther", { agent, tool, what }), { agent, what }) : kind === "plan" ? t("chat.wantedPlan") : t("chat.wantedBudget");
  const isAllowed = status === "approved" || status === "used";
  const answer = isAllowed && kind === "tool" ? tOr(`chat.youAllowed_${holds ?? "once"}`, t("chat.youAllowed_once")) : tOr(`chat.decision_${status}`, status);
  return (
    <div className={styles.line} role="group" aria-label={t("chat.decision")}>
      <span className={classes(styles.mark, status === "rejected" && styles.refused)} aria-hidden="true">
        {isAllowed ? "✓" : status === "rejected" ? "✕" : "–"}
      </span>
      <span className={styles.words}>
        <span className="data">{wanted}</span>{" "}
        <strong>{answer}</strong>
        {feedback && <q className={classes(styles.reason, "data")}>{visible(feedback, "\n")}</q>}
      </span>
      {kind === "tool" && (
        <Button kind="link" size="small" onClick={() => openPanel({ kind: "question", id: entry.id })}>
          {t("chat.show")}
        </Button>
      )}
      <Moment at={decided_at ?? entry.at} />
    </div>
  );
});
