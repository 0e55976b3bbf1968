import { type ReactNode, Suspense, lazy, useEffect, useMemo, useState } from "react";
import { call } from "@/api/client";
import type { ApprovalState } from "@/api/types";
import { subjectOf } from "@/state/decisions";
import { type PanelView, closePanel, openPanel, panel, resetPanel } from "@/state/panel";
import type { Conversation } from "@/state/session/conversation";
import type { EntryOf, SessionState } from "@/state/session/types";
import { memoize } from "@/state/store";
import { EmptyState, LoadFailed, Skeleton, Tabs, classes } from "@/ui/components";
import { useCell, useMedia, useResource, useSelected, useT } from "@/ui/hooks";
import { SidePanel } from "@/ui/shell";
import { Answers, DecisionExtras, TerminalHint, useDecision } from "./Actions";
import { Question } from "./Question";
import { Visible } from "./Visible";
import { Size } from "./Warnings";
import { WIDE } from "./layout";
import styles from "./Decisions.module.css";

const PlanPanel = lazy(() => import("../plan/PlanPanel"));

interface PanelProps {
  conversation: Conversation;
  /** What the tab "Details" shows for an id; without it there is no such tab. */
  details?: (id: string) => ReactNode;
}

/** The panel beside a conversation: a plan, a question or a change, and what the page adds. */
export function ConversationPanel({ conversation, details }: PanelProps) {
  const { view } = useCell(panel);
  useEffect(() => resetPanel, [conversation]);
  if (view === null) return null;
  if (view.kind === "plan") {
    return (
      <Suspense fallback={<PlainPanel view={view} conversation={conversation}><Skeleton /></PlainPanel>}>
        <PlanPanel key={view.id} id={view.id} conversation={conversation} tabs={(content) => <PanelTabs view={view} conversation={conversation}>{content}</PanelTabs>} />
      </Suspense>
    );
  }
  if (view.kind === "question") return <QuestionPanel key={view.id} id={view.id} conversation={conversation} />;
  return (
    <PlainPanel view={view} conversation={conversation}>
      {view.kind === "files" ? <ChangedFiles conversation={conversation} /> : details?.(view.id)}
    </PlainPanel>
  );
}

function PlainPanel({ view, conversation, footer, children }: { view: PanelView; conversation: Conversation; footer?: ReactNode; children: ReactNode }) {
  const t = useT();
  const titles = { plan: t("decisions.tabPlan"), question: t("decisions.panelQuestion"), files: t("decisions.tabFiles"), details: t("decisions.tabDetails") };
  return (
    <SidePanel title={titles[view.kind]} onClose={closePanel} footer={footer}>
      <PanelTabs view={view} conversation={conversation}>
        {children}
      </PanelTabs>
    </SidePanel>
  );
}

/** Tabs between the newest plan and the files of a conversation, if it has both. */
function PanelTabs({ view, conversation, children }: { view: PanelView; conversation: Conversation; children: ReactNode }) {
  const t = useT();
  const select = useMemo(() => memoize(newestPlan), []);
  const plan = useSelected(conversation.store, (state) => select(state.items));
  const changes = useChanges(conversation);
  if (plan === null || (!changes.length && view.kind !== "question") || view.kind === "details") return children;
  const selected = view.kind === "plan" ? "plan" : "files";
  return (
    <Tabs
      label={t("decisions.tabs")}
      tabs={[
        { id: "plan", label: t("decisions.tabPlan") },
        { id: "files", label: t("decisions.tabFiles") },
      ]}
      selected={selected}
      onSelect={(id) => id !== selected && openPanel(id === "plan" ? { kind: "plan", id: plan } : { kind: "files" })}
    >
      {children}
    </Tabs>
  );
}

function newestPlan(items: SessionState["items"]): string | null {
  const plans = Object.values(items).filter((entry) => entry.kind === "plan" && entry.plan.tasks > 1);
  plans.sort((one, other) => (one.at < other.at ? 1 : -1));
  return plans[0]?.id ?? null;
}

/** A question that waits, or one that was decided: then it is loaded. */
function QuestionPanel({ id, conversation }: { id: string; conversation: Conversation }) {
  const t = useT();
  const pending = useSelected(conversation.store, (state) => state.approvals.find((approval) => approval.id === id) ?? null);
  // One that is decided meanwhile is shown as it was: the panel leaves it soon.
  const [asked] = useState(pending);
  const { data, problem, reload } = useResource(pending || asked ? null : `approval ${id}`, (signal) =>
    call("GET /my/approvals/{approval_id}", { path: { approval_id: id } }, { signal }),
  );
  const approval = pending ?? data ?? asked;
  const isWide = useMedia(WIDE);
  return (
    <PlainPanel view={{ kind: "question", id }} conversation={conversation} footer={!isWide && pending && <QuestionFooter approval={pending} />}>
      {approval ? (
        <Question approval={approval} />
      ) : problem?.status === 404 ? (
        <EmptyState title={t("decisions.gone")} />
      ) : problem ? (
        <LoadFailed problem={problem} retry={reload} />
      ) : (
        <Skeleton />
      )}
    </PlainPanel>
  );
}

/** The answers, where the panel covers the bar above the composer. */
function QuestionFooter({ approval }: { approval: ApprovalState }) {
  const decide = useDecision(approval);
  const subject = subjectOf(approval);
  return (
    <>
      {subject.isInTerminal && <TerminalHint />}
      <div className={styles.actions}>
        <Answers approval={approval} subject={subject} decide={decide} />
      </div>
      <DecisionExtras approval={approval} decide={decide} />
    </>
  );
}

function useChanges(conversation: Conversation): readonly EntryOf<"file_change">[] {
  const select = useMemo(() => memoize(changesIn), []);
  return useSelected(conversation.store, (state) => select(state.items));
}

function changesIn(items: SessionState["items"]): readonly EntryOf<"file_change">[] {
  const changes = Object.values(items).filter((entry) => entry.kind === "file_change" && entry.file_change.action !== "undo");
  return (changes as EntryOf<"file_change">[]).sort((one, other) => (one.at < other.at ? 1 : -1));
}

/** Files that were changed in the conversation, newest first; each opens its diff. */
function ChangedFiles({ conversation }: { conversation: Conversation }) {
  const t = useT();
  const changes = useChanges(conversation);
  if (!changes.length) return <EmptyState title={t("decisions.noFiles")} />;
  return (
    <ul role="list" className={styles.changes}>
      {changes.map(({ id, file_change: { path, added, removed, undone, approval_id: approval } }) => (
        <li key={id}>
          <button
            type="button"
            className={styles.change}
            aria-disabled={approval === null || undefined}
            onClick={() => approval !== null && openPanel({ kind: "question", id: approval })}
          >
            <span className={classes(styles.path, "ellipsis", "data")}>
              <Visible text={path ?? ""} />
            </span>
            {undone && <span className="muted small">{t("decisions.undone")}</span>}
            {added !== null && removed !== null && <Size added={added} removed={removed} />}
          </button>
        </li>
      ))}
    </ul>
  );
}
