import { Suspense, lazy } from "react";
import type { ApprovalState } from "@/api/types";
import { tOr } from "@/i18n";
import { subjectOf } from "@/state/decisions";
import { classes } from "@/ui/components";
import { useT } from "@/ui/hooks";
import { useAgentName } from "./DecisionBar";
import { Target, wantsText } from "./Target";
import { Visible } from "./Visible";
import { Size, Warnings } from "./Warnings";
import styles from "./Decisions.module.css";

const DiffView = lazy(() => import("../diff/DiffView").then(({ DiffView: view }) => ({ default: view })));

/** What a question is about, whole: before the decision and after it. */
export function Question({ approval, hasTitle = true }: { approval: ApprovalState; hasTitle?: boolean }) {
  const t = useT();
  const subject = subjectOf(approval);
  const who = useAgentName(approval);
  const { verb, content, isDiff } = subject;
  return (
    <div className={styles.question}>
      {hasTitle && (
        <p className={styles.what}>
          <span className={styles.who}>{wantsText(subject, who, 0)}</span>
          <Target subject={subject} />
          {subject.size && <Size {...subject.size} />}
        </p>
      )}
      {approval.status !== "pending" && <p className="muted small">{tOr(`decisions.outcome_${approval.status}`, approval.status)}</p>}
      <Warnings subject={subject} />
      {subject.canBeUndone && <p className="muted small">{t("decisions.undoable")}</p>}
      {isDiff ? (
        // Until the view is loaded the bare text: an answer is never offered without it.
        <Suspense fallback={<Plain text={content} />}>
          <DiffView diff={content} path={subject.target} />
        </Suspense>
      ) : content ? (
        <Plain text={content} />
      ) : (
        ["write", "edit"].includes(verb) && <p>{subject.isSame ? t("decisions.sameContent") : t("decisions.emptyContent")}</p>
      )}
    </div>
  );
}

function Plain({ text }: { text: string }) {
  return (
    <pre className={classes(styles.content, styles.wholeContent, "data")} tabIndex={0}>
      <Visible text={text} keep={"\n\t"} />
    </pre>
  );
}
