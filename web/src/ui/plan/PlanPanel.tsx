import { type ReactNode, useEffect, useMemo } from "react";
import { closePanel, panel, toggleFullPanel } from "@/state/panel";
import type { Conversation } from "@/state/session/conversation";
import { isTaskDone, shownPlan } from "@/state/session/plans";
import { taskDrafts } from "@/state/session/rows";
import type { SessionState } from "@/state/session/types";
import { memoize } from "@/state/store";
import { Skeleton } from "@/ui/components";
import { WIDE } from "@/ui/decisions/layout";
import { useCell, useMedia, useProjectState, useSelected, useT } from "@/ui/hooks";
import { SidePanel } from "@/ui/shell";
import { PlanContent } from "./PlanContent";
import { PlanFooter } from "./PlanFooter";
import { TaskCalls } from "./TaskCalls";
import { usePlanEdit } from "./usePlanEdit";

interface PlanPanelProps {
  /** Of the workflow. */
  id: string;
  conversation: Conversation;
  tabs: (content: ReactNode) => ReactNode;
}

/** A plan in the panel beside its conversation, as it goes. */
export default function PlanPanel({ id, conversation, tabs }: PlanPanelProps) {
  const t = useT();
  const isWide = useMedia(WIDE);
  const { isFull } = useCell(panel);
  const { project } = useProjectState();
  const select = useMemo(() => {
    const show = memoize((plan: SessionState["plans"][string] | undefined, approvals: SessionState["approvals"]) => (plan ? shownPlan(plan, approvals) : null));
    return (state: SessionState) => show(state.plans[id], state.approvals);
  }, [id]);
  const plan = useSelected(conversation.store, select);
  const asked = useSelected(
    conversation.store,
    (state) =>
      state.approvals.find((approval) => approval.kind !== "tool" && (approval.arguments["workflow_id"] === id || approval.id === state.plans[id]?.approval_id)) ?? null,
  );
  const words = useWords(conversation, plan?.turn_id ?? null);
  const edit = usePlanEdit(plan, asked);
  const isMissing = plan === null;
  useEffect(() => {
    if (isMissing) conversation.loadPlan(id);
  }, [conversation, id, isMissing]);
  if (plan === null) {
    return (
      <SidePanel title={t("plans.plan")} onClose={closePanel}>
        <Skeleton />
      </SidePanel>
    );
  }
  const done = plan.tasks.filter(isTaskDone).length;
  const title = plan.started_at === null ? t("plans.plan") : t("plans.planDone", { done, count: plan.tasks.length });
  const agents = project?.agents.map(({ name }) => name) ?? [];
  const callsOf = (taskId: string) => <TaskCalls conversation={conversation} workflowId={id} turnId={plan.turn_id} taskId={taskId} />;
  const footer = <PlanFooter key={asked?.id} plan={plan} approval={asked} edit={edit} hasDeadline={!isWide || isFull} hasKeys onDone={() => conversation.loadPlan(id)} />;
  return (
    <SidePanel title={title} onClose={closePanel} isFull={isFull} toggleFull={toggleFullPanel} footer={hasActions(plan.status) && footer}>
      {tabs(<PlanContent plan={plan} approval={asked} edit={edit} agents={agents} words={words} callsOf={callsOf} />)}
    </SidePanel>
  );
}

function hasActions(status: string): boolean {
  return !["completed", "rejected", "planning"].includes(status);
}

/** Return what the tasks of a turn are writing. */
function useWords(conversation: Conversation, turnId: string | null): Readonly<Record<string, string>> {
  const select = useMemo(() => {
    const find = memoize((drafts: SessionState["drafts"], plans: SessionState["plans"]): Readonly<Record<string, string>> => {
      if (turnId === null) return {};
      const written = taskDrafts({ ...conversation.store.get(), drafts, plans }, turnId);
      return Object.fromEntries(Object.entries(written).map(([id, { text }]) => [id, text]));
    });
    return (state: SessionState) => find(state.drafts, state.plans);
  }, [conversation, turnId]);
  return useSelected(conversation.store, select);
}
