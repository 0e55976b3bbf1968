import { useMemo } from "react";
import { openPanel } from "@/state/panel";
import { viewOfChange } from "@/state/decisions";
import type { Conversation } from "@/state/session/conversation";
import type { EntryOf, LiveCall, SessionState } from "@/state/session/types";
import { memoize } from "@/state/store";
import { Button } from "@/ui/components";
import { Visible } from "@/ui/decisions/Visible";
import { Size } from "@/ui/decisions/Warnings";
import { useSelected, useT } from "@/ui/hooks";
import { ActivityLine } from "@/pages/chat/timeline/ActivityLine";
import styles from "./Plan.module.css";

interface Work {
  calls: readonly EntryOf<"tool_call">[];
  live: readonly LiveCall[];
  changes: readonly EntryOf<"file_change">[];
}

/** What a task of a plan did with its tools, and the files that it changed. */
export function TaskCalls({ conversation, workflowId, turnId, taskId }: { conversation: Conversation; workflowId: string; turnId: string; taskId: string }) {
  const t = useT();
  const select = useMemo(() => {
    const find = memoize((items: SessionState["items"], calls: SessionState["calls"]): Work => workOf(items, calls, { workflowId, turnId, taskId }));
    return (state: SessionState) => find(state.items, state.calls);
  }, [workflowId, turnId, taskId]);
  const { calls, live, changes } = useSelected(conversation.store, select);
  if (!calls.length && !live.length && !changes.length) return null;
  return (
    <section aria-label={t("plans.calls")} className="stack">
      <h3>{t("plans.calls")}</h3>
      {(calls.length > 0 || live.length > 0) && <ActivityLine calls={calls} live={live} />}
      {changes.map(({ id, file_change: change }) => (
        <div key={id} className={styles.changed}>
          <span className="ellipsis data">
            <Visible text={change.path ?? ""} />
          </span>
          {change.added !== null && change.removed !== null && <Size added={change.added} removed={change.removed} />}
          <ShowDiff id={id} change={change} />
        </div>
      ))}
    </section>
  );
}

function ShowDiff({ id, change }: { id: string; change: EntryOf<"file_change">["file_change"] }) {
  const t = useT();
  const view = viewOfChange(id, change);
  return view === null ? null : (
    <Button size="small" onClick={() => openPanel(view)}>
      {t("plans.diff")}
    </Button>
  );
}

export function workOf(items: SessionState["items"], calls: SessionState["calls"], { workflowId, turnId, taskId }: { workflowId: string; turnId: string; taskId: string }): Work {
  const isOf = (of: { workflow_id: string | null; task_id: string | null }) => of.workflow_id === workflowId && of.task_id === taskId;
  const entries = Object.values(items).toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at));
  return {
    // One that runs is told by its event.
    calls: entries.filter((entry) => entry.kind === "tool_call").filter(({ tool_call: call }) => isOf(call) && call.status !== "sent"),
    live: Object.values(calls).filter((call) => call.turnId === turnId && call.taskId === taskId),
    changes: entries.filter((entry) => entry.kind === "file_change").filter(({ file_change: change }) => isOf(change)),
  };
}
