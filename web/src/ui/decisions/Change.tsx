import { Suspense, lazy } from "react";
import { call } from "@/api/client";
import { tOr } from "@/i18n";
import { hiddenIn } from "@/state/visible";
import { EmptyState, LoadFailed, Skeleton } from "@/ui/components";
import { useResource, useT } from "@/ui/hooks";
import { Visible } from "./Visible";
import styles from "./Decisions.module.css";

const DiffView = lazy(() => import("../diff/DiffView").then(({ DiffView: view }) => ({ default: view })));

/** What a call has changed in a file, and how it was allowed. */
export function ChangeContent({ projectId, id }: { projectId: number; id: string }) {
  const t = useT();
  const { data, problem, reload } = useResource(`diff ${id}`, (signal) =>
    call("GET /my/projects/{project_id}/changes/{call_id}", { path: { project_id: projectId, call_id: id } }, { signal }),
  );
  if (problem?.status === 404) return <EmptyState title={t("decisions.noDiff")} />;
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton />;
  const hidden = hiddenIn(data.diff);
  return (
    <div className={styles.question}>
      {data.holds !== null && (
        <p className="muted small data">
          {tOr(`decisions.allowed_${data.holds}`, data.holds)} {data.grant !== null && <Visible text={`(${data.grant.replace(/^write /, "")})`} />}
        </p>
      )}
      {hidden && (
        <div className={styles.warning} role="alert">
          <p className={styles.danger}>{t("decisions.hidden", { count: hidden.count, names: hidden.names, sample: hidden.shownAs })}</p>
        </div>
      )}
      {data.diff !== "" && (
        <Suspense fallback={<Skeleton />}>
          <DiffView diff={data.diff} path={data.path} />
        </Suspense>
      )}
    </div>
  );
}
