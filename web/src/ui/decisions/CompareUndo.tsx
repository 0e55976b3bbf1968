import { Suspense, lazy } from "react";
import type { UndoComparison } from "@/api/types";
import { problemText } from "@/i18n/problemText";
import { type Undoing, compareUndo } from "@/state/undo";
import { hiddenIn, visible } from "@/state/visible";
import { Button, LoadFailed, Prose, Skeleton } from "@/ui/components";
import { useAction, useResource, useT } from "@/ui/hooks";
import { Visible } from "./Visible";
import styles from "./Decisions.module.css";

const DiffView = lazy(() => import("../diff/DiffView").then(({ DiffView: view }) => ({ default: view })));

/** A file that was changed since: what putting it back would change, and the decision to do so. */
export function useComparison(undoing: Undoing, putBack: (ifMatch: string) => Promise<unknown>, onDone: () => void) {
  const { projectId, turnId, path } = undoing;
  const loaded = useResource(`compare ${projectId} ${turnId} ${path ?? ""}`, (signal) => compareUndo(undoing, signal));
  const action = useAction(async (sha256: string) => {
    try {
      await putBack(sha256);
    } catch (failure) {
      loaded.reload(); // it may have been changed once more: that has to be seen first
      throw failure;
    }
    onDone();
  });
  return { ...loaded, putBack: action };
}

type Compared = ReturnType<typeof useComparison>;

export function CompareContent({ compared: { data, problem, reload } }: { compared: Compared }) {
  const t = useT();
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton />;
  const path = visible(data.path);
  return (
    <div className={styles.question}>
      <p>{data.diff === "" ? t("decisions.compareSame", { path }) : t("decisions.compareText", { path })}</p>
      <CompareWarnings data={data} />
      {data.diff !== "" && (
        <Suspense fallback={<Skeleton />}>
          <DiffView diff={data.diff} path={data.path} />
        </Suspense>
      )}
    </div>
  );
}

function CompareWarnings({ data }: { data: UndoComparison }) {
  const t = useT();
  const hidden = hiddenIn(data.diff);
  if (!hidden && data.notice === null) return null;
  return (
    <div className={styles.warning} role="alert">
      {data.notice !== null && (
        <p className="data">
          <Visible text={data.notice} />
        </p>
      )}
      {hidden && <p className={styles.danger}>{t("decisions.hidden", { count: hidden.count, names: hidden.names, sample: hidden.shownAs })}</p>}
    </div>
  );
}

/** Only with the difference in view. */
export function CompareActions({ compared: { data, putBack } }: { compared: Compared }) {
  const t = useT();
  return (
    <>
      <div className={styles.actions}>
        <Button kind="primary" isBusy={putBack.isBusy} isDisabled={!data} onClick={() => data && void putBack.run(data.sha256)}>
          {t("decisions.putBackAnyway")}
        </Button>
      </div>
      <p role="alert" className={styles.error}>
        {putBack.problem && <Prose text={problemText(putBack.problem)} />}
      </p>
    </>
  );
}
