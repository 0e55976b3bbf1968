import { type ReactNode, Suspense, lazy, useEffect, useMemo, useState } from "react";
import { call } from "@/api/client";
import type { ApprovalState } from "@/api/types";
import { withPageTexts } from "@/i18n";
import { subjectOf, together, viewOfChange } from "@/state/decisions";
import { type PanelView, closePanel, openPanel, panel, resetPanel, toggleFullPanel } from "@/state/panel";
import type { Conversation } from "@/state/session/conversation";
import { isAgentChange } from "@/state/session/swaps";
import type { EntryOf, SessionState } from "@/state/session/types";
import { memoize } from "@/state/store";
import { visible } from "@/state/visible";
import { EmptyState, LoadFailed, Skeleton, Tabs, classes } from "@/ui/components";
import { useCell, useMedia, useResource, useSelected, useT } from "@/ui/hooks";
import { SidePanel } from "@/ui/shell";
import { Answers, DecisionExtras, TerminalHint, useDecision } from "./Actions";
import { AllQuestions, AllowAll, useSeen } from "./AllQuestions";
import { CompareActions, CompareContent, useComparison } from "./CompareUndo";
import { ChangeContent } from "./Change";
import { Question } from "./Question";
import { Visible } from "./Visible";
import { Size } from "./Warnings";
import { WIDE } from "./layout";
import styles from "./Decisions.module.css";

const PlanPanel = lazy(() => withPageTexts(import("../plan/PlanPanel")));

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
  if (view.kind === "questions") return <AllPanel key={view.id} view={view} conversation={conversation} />;
  if (view.kind === "change") return <ChangePanel key={view.id} view={view} conversation={conversation} />;
  if (view.kind === "compare") return <ComparePanel key={`${view.id} ${view.path}`} view={view} conversation={conversation} />;
  return (
    <PlainPanel view={view} conversation={conversation}>
      {view.kind === "files" ? <ChangedFiles conversation={conversation} /> : details?.(view.id)}
    </PlainPanel>
  );
}

function PlainPanel({ view, conversation, footer, children }: { view: PanelView; conversation: Conversation; footer?: ReactNode; children: ReactNode }) {
  const t = useT();
  const { isFull } = useCell(panel);
  const titles = {
    plan: t("decisions.tabPlan"),
    question: t("decisions.panelQuestion"),
    questions: t("decisions.panelQuestion"),
    change: t("decisions.diffOf", { path: "path" in view ? visible(view.path) : "" }),
    compare: t("decisions.panelCompare"),
    files: t("decisions.tabFiles"),
    details: t("decisions.tabDetails"),
  };
  return (
    <SidePanel title={titles[view.kind]} onClose={closePanel} isFull={isFull} toggleFull={toggleFullPanel} footer={footer}>
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
  if (plan === null || (!changes.length && !view.kind.startsWith("question")) || view.kind === "details") return children;
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
  const { isFull } = useCell(panel);
  // One that is decided meanwhile is shown as it was: the panel leaves it soon.
  const [asked] = useState(pending);
  const { data, problem, reload } = useResource(pending || asked ? null : `approval ${id}`, (signal) =>
    call("GET /my/approvals/{approval_id}", { path: { approval_id: id } }, { signal }),
  );
  const approval = pending ?? data ?? asked;
  const isCovering = !useMedia(WIDE) || isFull;
  return (
    <PlainPanel view={{ kind: "question", id }} conversation={conversation} footer={isCovering && pending && <QuestionFooter approval={pending} />}>
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

/** Questions about several files, to be answered together. */
function AllPanel({ view, conversation }: { view: Extract<PanelView, { kind: "questions" }>; conversation: Conversation }) {
  const select = useMemo(() => memoize((approvals: readonly ApprovalState[]) => allOf(approvals, view.id)), [view.id]);
  const approvals = useSelected(conversation.store, (state) => select(state.approvals));
  const [seen, note] = useSeen();
  useEffect(() => {
    if (!approvals.length) panel.set((shown) => ({ ...shown, view: null }));
  }, [approvals]);
  return (
    <PlainPanel view={view} conversation={conversation} footer={<AllowAll approvals={approvals} seen={seen} />}>
      <AllQuestions approvals={approvals} onSeen={note} />
    </PlainPanel>
  );
}

/** Return those that are still open; `id` may have been decided before the others. */
function allOf(approvals: readonly ApprovalState[], id: string): readonly ApprovalState[] {
  const [turnId, agentId] = id.split(" ");
  const one = approvals.find(({ turn_id, agent_id }) => turn_id === turnId && String(agent_id) === agentId);
  return one ? together(approvals, one) : [];
}

/** What an agent has changed in a file. */
function ChangePanel({ view, conversation }: { view: Extract<PanelView, { kind: "change" }>; conversation: Conversation }) {
  return (
    <PlainPanel view={view} conversation={conversation}>
      <ChangeContent projectId={conversation.projectId} id={view.id} />
    </PlainPanel>
  );
}

function ComparePanel({ view, conversation }: { view: Extract<PanelView, { kind: "compare" }>; conversation: Conversation }) {
  const { id: turnId, path } = view;
  const compared = useComparison({ projectId: conversation.projectId, turnId, path }, (ifMatch) => conversation.undo(turnId, path, ifMatch), closePanel);
  return (
    <PlainPanel view={view} conversation={conversation} footer={<CompareActions compared={compared} />}>
      <CompareContent compared={compared} />
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
  return Object.values(items).filter(isAgentChange).sort((one, other) => (one.at < other.at ? 1 : -1));
}

/** Files that were changed in the conversation, newest first; each opens its diff. */
function ChangedFiles({ conversation }: { conversation: Conversation }) {
  const t = useT();
  const changes = useChanges(conversation);
  if (!changes.length) return <EmptyState title={t("decisions.noFiles")} />;
  return (
    <ul role="list" className={styles.changes}>
      {changes.map(({ id, file_change }) => ({ id, ...file_change, view: viewOfChange(id, file_change) })).map(({ id, path, added, removed, undone, view }) => (
        <li key={id}>
          <button type="button" className={styles.change} aria-disabled={view === null || undefined} onClick={() => view && openPanel(view)}>
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
