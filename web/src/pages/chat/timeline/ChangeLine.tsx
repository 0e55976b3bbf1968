import { FilePen, FileX, Redo2, Undo2 } from "lucide-react";
import { memo, useMemo } from "react";
import { t as translate, tOr } from "@/i18n";
import { formatNumber } from "@/i18n/format";
import { viewOfChange } from "@/state/decisions";
import { openPanel } from "@/state/panel";
import { isSwap, swapState } from "@/state/session/swaps";
import type { EntryOf, SessionState } from "@/state/session/types";
import { memoize } from "@/state/store";
import { visible } from "@/state/visible";
import { agentLabel } from "@/ui/agents";
import { Button, Moment, classes } from "@/ui/components";
import { useProjectState, useSelected, useT } from "@/ui/hooks";
import { toolLabel } from "@/ui/tools";
import { useChat } from "../chatContext";
import { useAttempt } from "../useAttempt";
import { subjectOf } from "./ActivityLine";
import styles from "./Timeline.module.css";

const STAYS: readonly string[] = ["changed_since", "not_kept", "failed"];

/** A file that an agent changed, with what was decided about it; or that the user put back. */
export const ChangeLine = memo(function ChangeLine({ entry, decision }: { entry: EntryOf<"file_change">; decision: EntryOf<"approval"> | null }) {
  return isSwap(entry) ? <SwapLine entry={entry} /> : <Change entry={entry} decision={decision} />;
});

function Change({ entry, decision }: { entry: EntryOf<"file_change">; decision: EntryOf<"approval"> | null }) {
  const t = useT();
  const { conversation } = useChat();
  const { attempt, isBusy } = useAttempt();
  const { action, added, removed, undone, agent } = entry.file_change;
  const view = viewOfChange(entry.id, entry.file_change);
  const holds = decision ? (decision.approval.holds ?? "once") : entry.file_change.holds;
  const path = entry.file_change.path ?? "";
  const Sign = action === "delete" ? FileX : FilePen;
  const undo = () =>
    attempt(async () => {
      if (entry.turn_id === null) return;
      await conversation.undo(entry.turn_id, path); // the timeline tells what became of it
    });
  return (
    <div className={styles.change} role="group" aria-label={tOr(`chat.changed_${action}`, path, { agent: agentLabel(agent), path: visible(path) })}>
      <Sign aria-hidden="true" size={15} />
      <span className={classes(styles.path, undone && styles.undone)}>{visible(path)}</span>
      {action === "delete" && <span className={styles.removed}>{t("chat.deleted")}</span>}
      {added !== null && action !== "delete" && <span className={styles.added}>+{formatNumber(added)}</span>}
      {removed !== null && action !== "delete" && <span className={styles.removed}>−{formatNumber(removed)}</span>}
      <span className={styles.faint}>{undone ? t("chat.putBack") : holds ? tOr(`chat.allowed_${holds}`, t("chat.allowed_once")) : null}</span>
      <span className={styles.changeActions}>
        {view && (
          <Button size="small" onClick={() => openPanel(view)}>
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

/** What the user put back, or changed again; with what can still be done about it. */
function SwapLine({ entry }: { entry: EntryOf<"file_change"> }) {
  const t = useT();
  const { conversation } = useChat();
  const { attempt, isBusy } = useAttempt();
  const select = useMemo(() => {
    const find = memoize((items: SessionState["items"]) => swapState(items, entry));
    return (state: SessionState) => find(state.items);
  }, [entry]);
  const { canRedo, conflicts } = useSelected(conversation.store, select);
  const { path, action } = entry.file_change;
  const turnId = entry.turn_id ?? "";
  const Sign = action === "redo" ? Redo2 : Undo2;
  return (
    <div className={styles.line} role="group" aria-label={t("chat.decision")}>
      <Sign aria-hidden="true" size={14} />
      <span className="data">{swapText(entry)}</span>
      {canRedo && (
        <Button size="small" isBusy={isBusy} onClick={() => attempt(() => conversation.redo(turnId, path))}>
          {t("chat.redo")}
        </Button>
      )}
      {conflicts.map((name) => (
        <Button key={name} size="small" aria-label={`${t("chat.compare")} ${visible(name)}`} onClick={() => openPanel({ kind: "compare", id: turnId, path: name })}>
          {t("chat.compare")}
        </Button>
      ))}
      <Moment at={entry.at} />
    </div>
  );
}

function swapText({ file_change: { files, path, status, action } }: EntryOf<"file_change">): string {
  const isRedo = action === "redo";
  if (files.length > 0) return outcomesOf(files, isRedo);
  if (status !== "done") return status === "sent" || status === "unknown" ? translate("chat.undoUnknown") : translate("chat.undoFailed");
  if (path === null) return isRedo ? translate("chat.allRedone") : translate("chat.allPutBack");
  return translate(isRedo ? "chat.fileRedone" : "chat.filePutBack", { path: visible(path) });
}

/** Return what became of files that were put back, or changed again. */
function outcomesOf(files: readonly { path: string; outcome: string }[], isRedo = false): string {
  const sentences = files.map(({ path, outcome }) => {
    const values = { path: visible(path) };
    if (STAYS.includes(outcome)) return tOr(`chat.stays_${outcome}`, path, values);
    if (isRedo) return outcome === "removed" ? translate("chat.fileDeletedAgain", values) : translate("chat.fileRedone", values);
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
  const wanted = kind === "tool" ? tOr(`chat.wanted_${tool}`, t("chat.wantedOther", { agent, tool: visible(toolLabel(tool)), what }), { agent, what }) : kind === "plan" ? t("chat.wantedPlan") : t("chat.wantedBudget");
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
