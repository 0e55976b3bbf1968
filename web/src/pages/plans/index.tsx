import { ListTree } from "lucide-react";
import { useEffect, useRef } from "react";
import type { PageProps } from "@/App";
import { call } from "@/api/client";
import { LARGEST_PAGE } from "@/api/paging";
import type { WorkflowState } from "@/api/types";
import { tOr } from "@/i18n";
import { openPanel } from "@/state/panel";
import { isPlanExpired, isPlanOver, isTaskDone, planStatus } from "@/state/session/plans";
import { EmptyState, EndOfList, LoadFailed, Moment, Money, Skeleton, Table } from "@/ui/components";
import { useList, useProject, useT } from "@/ui/hooks";
import { Link } from "@/ui/router";
import { paths } from "@/ui/routes";
import { PageFrame } from "@/ui/shell";

const SETTLE_MS = 500;

/** `/p/:project/plans`: plans of the project by how they stand, newest first. */
export default function PlansPage({ route }: PageProps) {
  const t = useT();
  const id = route.projectId ?? 0;
  const { data, problem, isLoading, reload, more, moreProblem } = useList(
    `plans ${id}`,
    (page, signal) => call("GET /my/workflows", { query: { project_id: id, ...page } }, { signal }),
    (plan) => plan.id,
  );
  useReloadOnEvents(reload);
  const plans = data?.items.filter(isShown);
  const groups: [string, readonly WorkflowState[]][] = [
    [t("plans.groupWaiting"), plans?.filter((plan) => plan.status === "awaiting_approval" || isPlanExpired(plan)) ?? []],
    [t("plans.groupRunning"), plans?.filter((plan) => plan.status !== "awaiting_approval" && !isPlanOver(plan)) ?? []],
    [t("plans.groupFailed"), plans?.filter((plan) => isPlanOver(plan) && !isPlanExpired(plan) && !isPlanDone(plan)) ?? []],
    [t("plans.groupDone"), plans?.filter(isPlanDone) ?? []],
  ];
  return (
    <PageFrame title={t("plans.title")}>
      {problem ? (
        <LoadFailed problem={problem} retry={reload} />
      ) : !plans || !data ? (
        <Skeleton />
      ) : plans.length === 0 && data.items.length === data.total ? (
        <EmptyState title={t("plans.empty")} text={t("plans.emptyText")} icon={<ListTree aria-hidden="true" size={32} />} />
      ) : (
        <>
          {groups.filter(([, group]) => group.length).map(([title, group]) => (
            <PlanGroup key={title} title={title} plans={group} />
          ))}
          <EndOfList shown={data.items.length} total={data.total} isLoading={isLoading} problem={moreProblem} isAutomatic={data.items.slice(-LARGEST_PAGE).some(isShown)} more={more} />
        </>
      )}
    </PageFrame>
  );
}

/** An answer of one agent is a workflow too, but no plan. */
function isShown({ tasks, status }: WorkflowState): boolean {
  return tasks.length > 1 || status === "planning";
}

function isPlanDone({ status, tasks }: WorkflowState): boolean {
  return status === "completed" && tasks.every(isTaskDone);
}

function PlanGroup({ title, plans }: { title: string; plans: readonly WorkflowState[] }) {
  const t = useT();
  return (
    <section className="stack" aria-label={title}>
      <h2>{title}</h2>
      <Table
        isEven
        caption={title}
        rows={plans}
        rowKey={({ id }) => id}
        columns={[
          {
            key: "request",
            title: t("plans.request"),
            cell: ({ id, request, project_id, session_id }) => (
              <Link to={paths.chat(project_id, session_id)} className="data" onClick={() => openPanel({ kind: "plan", id })}>
                {request.length > 120 ? `${request.slice(0, 120)}…` : request}
              </Link>
            ),
          },
          { key: "status", title: t("plans.status"), cell: (plan) => tOr(`plans.status_${planStatus(plan)}`, plan.status) },
          { key: "tasks", title: t("plans.tasksColumn"), cell: ({ tasks }) => `${tasks.filter(isTaskDone).length} / ${tasks.length}`, isNumber: true },
          { key: "cost", title: t("plans.cost"), cell: ({ cost }) => <Money usd={cost} />, isNumber: true },
          { key: "at", title: t("plans.created"), cell: ({ created_at }) => <Moment at={created_at} /> },
        ]}
      />
    </section>
  );
}

/** Load again soon after something has happened in the project. */
function useReloadOnEvents(reload: () => void): void {
  const project = useProject();
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEffect(() => {
    const stop = project.onEvent(() => {
      timer.current ??= setTimeout(() => {
        timer.current = null;
        reload();
      }, SETTLE_MS);
    });
    return () => {
      stop();
      if (timer.current) clearTimeout(timer.current);
      timer.current = null;
    };
  }, [project, reload]);
}
