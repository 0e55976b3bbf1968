import { type ReactNode, useRef, useState } from "react";
import type { ApprovalState, WorkflowState } from "@/api/types";
import { problemText } from "@/i18n/problemText";
import { approvePlan, askPlanAgain, goOn, refuse, stopPlan } from "@/state/decisions";
import { isPlanExpired, isPlanOver } from "@/state/session/plans";
import { Button, FormDialog, Prose, TextArea, textOf } from "@/ui/components";
import { Deadline, Key } from "@/ui/decisions/Actions";
import { useDecisionKeys } from "@/ui/decisions/useDecisionKeys";
import { useAction, useT } from "@/ui/hooks";
import { amountOf } from "./price";
import type { PlanEdit } from "./usePlanEdit";
import styles from "./Plan.module.css";

interface FooterProps {
  plan: WorkflowState;
  /** The question that waits. */
  approval: ApprovalState | null;
  edit: PlanEdit;
  /** Called after the user has done something. */
  onDone?: () => void;
  hasDeadline?: boolean;
  hasKeys?: boolean;
}

/** What the user can do about a plan: decide before it runs, stop it, go on with it. */
export function PlanFooter(props: FooterProps) {
  const { plan, approval } = props;
  if (approval?.kind === "budget") return <BudgetQuestion {...props} approval={approval} />;
  if (approval) return <PlanQuestion {...props} approval={approval} />;
  if (!isPlanOver(plan)) return plan.tasks.length > 0 && <StopButton {...props} />;
  return ["partial", "failed", "cancelled", "timeout"].includes(plan.status) && <GoOnButton {...props} />;
}

/** Return the highest price of a changed plan as it is shown, which its approval agrees to. */
function agreedTo({ changes, price }: PlanEdit): number | null {
  return changes.length && price?.estimated_cost_high ? Math.ceil(price.estimated_cost_high * 100) / 100 : null;
}

function PlanQuestion({ approval, edit, onDone, hasDeadline = false, hasKeys = false }: FooterProps & { approval: ApprovalState }) {
  const t = useT();
  const [note, setNote] = useState<string | null>(null);
  const [isRejecting, setRejecting] = useState(false);
  const frame = useRef<HTMLDivElement>(null);
  const { run, isBusy, problem } = useAction(async () => {
    await approvePlan(approval.id, edit.changes, note ?? "", edit.limit ?? agreedTo(edit));
    edit.end();
    onDone?.();
  });
  const canApprove = edit.mistake === null && !edit.isPricing;
  const approve = () => canApprove && void run();
  useDecisionKeys(approval.id, frame, hasKeys && edit.tasks === null ? { Enter: approve, r: () => setRejecting(true) } : {});
  return (
    <div ref={frame} className={styles.footer}>
      {note === null ? (
        <div>
          <Button kind="link" className="small" onClick={() => setNote("")}>
            {t("plans.note")}
          </Button>
        </div>
      ) : (
        <TextArea label={t("plans.noteLabel")} rows={2} maxLength={2000} value={note} autoFocus onChange={(event) => setNote(event.target.value)} />
      )}
      <div className={styles.buttons}>
        <Button kind="primary" isBusy={isBusy} isDisabled={!canApprove} onClick={approve}>
          {edit.changes.length ? t("plans.approveChanged") : t("plans.approve")}
          {hasKeys && edit.tasks === null && <Key name="⏎" />}
        </Button>
        {edit.tasks === null ? <Button onClick={edit.begin}>{t("plans.edit")}</Button> : <Button onClick={edit.end}>{t("plans.discard")}</Button>}
        <Button onClick={() => setRejecting(true)}>{t("plans.reject")}</Button>
        {hasDeadline && <Deadline approval={approval} />}
      </div>
      <ErrorLine>{problem && <Prose text={problemText(problem)} />}</ErrorLine>
      {isRejecting && (
        <FormDialog
          title={t("plans.rejectTitle")}
          submitLabel={t("plans.rejectIt")}
          submitKind="danger"
          onSubmit={async (form) => {
            await refuse(approval.id, textOf(form, "different"));
            onDone?.();
          }}
          onClose={() => setRejecting(false)}
        >
          <TextArea label={t("plans.different")} hint={t("plans.differentHint")} name="different" rows={3} maxLength={2000} autoFocus />
        </FormDialog>
      )}
    </div>
  );
}

/** The plan is about to cost more than was agreed. */
function BudgetQuestion({ approval, onDone, hasDeadline = false }: FooterProps & { approval: ApprovalState }) {
  const t = useT();
  const approving = useAction(async () => {
    await approvePlan(approval.id, [], "");
    onDone?.();
  });
  const refusing = useAction(async () => {
    await refuse(approval.id, "");
    onDone?.();
  });
  const problem = approving.problem ?? refusing.problem;
  return (
    <div className={styles.footer}>
      <p>{t("plans.budget", { agreed: amountOf(approval, "agreed_cost"), spent: amountOf(approval, "spent"), wanted: amountOf(approval, "estimated_cost") })}</p>
      <div className={styles.buttons}>
        <Button kind="primary" isBusy={approving.isBusy} onClick={() => void approving.run()}>
          {t("plans.goOnSpending")}
        </Button>
        <Button isBusy={refusing.isBusy} onClick={() => void refusing.run()}>
          {t("plans.stop")}
        </Button>
        {hasDeadline && <Deadline approval={approval} />}
      </div>
      <ErrorLine>{problem && <Prose text={problemText(problem)} />}</ErrorLine>
    </div>
  );
}

function StopButton({ plan, onDone }: FooterProps) {
  const t = useT();
  const { run, isBusy, problem } = useAction(async () => {
    await stopPlan(plan.id);
    onDone?.();
  });
  return (
    <div className={styles.footer}>
      <div className={styles.buttons}>
        <Button isBusy={isBusy} onClick={() => void run()}>
          {t("plans.stop")}
        </Button>
      </div>
      <ErrorLine>{problem && <Prose text={problemText(problem)} />}</ErrorLine>
    </div>
  );
}

function GoOnButton({ plan, onDone }: FooterProps) {
  const t = useT();
  const isExpired = isPlanExpired(plan);
  const { run, isBusy, problem } = useAction(async () => {
    await (isExpired ? askPlanAgain(plan.id) : goOn(plan.id));
    onDone?.();
  });
  return (
    <div className={styles.footer}>
      {isExpired && <p className="muted small">{t("plans.expired")}</p>}
      <div className={styles.buttons}>
        <Button kind="primary" isBusy={isBusy} onClick={() => void run()}>
          {isExpired ? t("plans.askAgain") : t("plans.goOn")}
        </Button>
      </div>
      <ErrorLine>{problem && <Prose text={problemText(problem)} />}</ErrorLine>
    </div>
  );
}

function ErrorLine({ children }: { children: ReactNode }) {
  return (
    <p role="alert" className={styles.error}>
      {children}
    </p>
  );
}
