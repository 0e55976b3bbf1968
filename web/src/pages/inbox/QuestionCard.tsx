import { CircleAlert } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import type { ApprovalState, Failure } from "@/api/types";
import { tOr } from "@/i18n";
import { problemText } from "@/i18n/problemText";
import { askAgain, isShort, subjectOf, viewOf } from "@/state/decisions";
import { refreshInbox } from "@/state/inbox";
import { openPanel } from "@/state/panel";
import { visible } from "@/state/visible";
import { agentLabel } from "@/ui/agents";
import { Button, LoadFailed, Moment, Prose, Skeleton, classes } from "@/ui/components";
import { Answers, Deadline, DecisionExtras, RefuseButton, TerminalHint, useDecision } from "@/ui/decisions/Actions";
import { useAgentName } from "@/ui/decisions/DecisionBar";
import { Question } from "@/ui/decisions/Question";
import { Target, targetText, wantsText } from "@/ui/decisions/Target";
import { Visible } from "@/ui/decisions/Visible";
import { Size } from "@/ui/decisions/Warnings";
import { useAction, useResource, useT } from "@/ui/hooks";
import { PlanContent } from "@/ui/plan/PlanContent";
import { PlanFooter } from "@/ui/plan/PlanFooter";
import { usePlanEdit } from "@/ui/plan/usePlanEdit";
import { Link } from "@/ui/router";
import { paths } from "@/ui/routes";
import styles from "./Inbox.module.css";

/** One question that waits, decidable here: its answers come with its content. */
export function QuestionCard({ approval, isFirst }: { approval: ApprovalState; isFirst: boolean }) {
  const t = useT();
  const subject = subjectOf(approval);
  const who = useAgentName(approval);
  const view = viewOf(approval);
  const [isOpen, setOpen] = useState(isFirst);
  const isPlan = view.kind === "plan";
  const tasks = Number(approval.details["tasks"] ?? 0);
  return (
    <article className={styles.card} aria-label={`${wantsText(subject, who, tasks)} ${isPlan ? "" : targetText(subject)}`}>
      <div className={styles.head}>
        <p className={styles.what}>
          {isPlan ? t("decisions.notifyPlan") : wantsText(subject, who, 0)}
          {!isPlan && <Target subject={subject} />}
          {subject.size && <Size {...subject.size} />}
        </p>
        {!isPlan && <Deadline approval={approval} />}
        <Button aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? t("inbox.hide") : t("inbox.show")}
        </Button>
      </div>
      <Where place={approval} at={approval.created_at} onOpen={() => openPanel(view)} />
      {isPlan ? isOpen && <PlanDecision approval={approval} workflowId={view.id} /> : <ToolDecision approval={approval} isOpen={isOpen} />}
    </article>
  );
}

interface Place {
  project_id: number;
  project_name?: string | null;
  session_id: string;
  session_title?: string | null;
}

/** Where and when something happened, with the way to its conversation. */
function Where({ place, at, onOpen }: { place: Place; at: string; onOpen?: () => void }) {
  const t = useT();
  return (
    <p className={styles.where}>
      <span className="data">{t("inbox.where", { project: visible(place.project_name ?? ""), conversation: visible(place.session_title ?? "") })}</span>
      <Moment at={at} />
      <Link to={paths.chat(place.project_id, place.session_id)} className="reach" {...(onOpen ? { onClick: onOpen } : {})}>
        {t("inbox.open")}
      </Link>
    </p>
  );
}

function ToolDecision({ approval, isOpen }: { approval: ApprovalState; isOpen: boolean }) {
  const decide = useDecision(approval);
  const subject = subjectOf(approval);
  const isInView = isOpen || isShort(subject);
  return (
    <>
      {isInView && (
        <div className={styles.content}>
          <Question approval={approval} hasTitle={false} />
        </div>
      )}
      {subject.isInTerminal && <TerminalHint />}
      <div className={styles.actions}>{isInView ? <Answers approval={approval} subject={subject} decide={decide} /> : <RefuseButton decide={decide} />}</div>
      <DecisionExtras approval={approval} decide={decide} />
    </>
  );
}

function PlanDecision({ approval, workflowId }: { approval: ApprovalState; workflowId: string }) {
  const { data: plan, problem, reload } = useResource(`plan ${workflowId}`, (signal) => call("GET /my/workflows/{workflow_id}", { path: { workflow_id: workflowId } }, { signal }));
  const agents = useResource(`agents ${approval.project_id}`, (signal) => call("GET /my/projects/{project_id}", { path: { project_id: approval.project_id } }, { signal }));
  const edit = usePlanEdit(plan, approval);
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!plan) return <Skeleton />;
  const names = agents.data?.agents.map(({ name }) => name) ?? [];
  return (
    <>
      <div className={styles.content}>
        <PlanContent plan={plan} approval={approval} edit={edit} agents={names} words={{}} />
      </div>
      <PlanFooter plan={plan} approval={approval} edit={edit} hasDeadline onDone={refreshInbox} />
    </>
  );
}

/** A conversation whose last turn failed. */
export function FailedCard({ failure }: { failure: Failure }) {
  const t = useT();
  const { agent, error, error_code: code, failed_at: at } = failure;
  const title = agent === null ? t("inbox.failedTeam") : t("inbox.failed", { agent: visible(agentLabel(agent)) });
  return (
    <article className={classes(styles.card, styles.quiet)} aria-label={`${title} ${visible(failure.session_title)}`}>
      <div className={styles.head}>
        <CircleAlert className={styles.failed} aria-hidden="true" size={16} />
        <p className={classes(styles.what, "data")}>{title}</p>
      </div>
      <p className="data">
        <Visible text={tOr(`chat.notice_${code ?? ""}`, error ?? "")} keep={"\n"} />
      </p>
      <Where place={failure} at={at} />
    </article>
  );
}

/** A question that nobody answered in time. */
export function MissedCard({ approval, onAsked }: { approval: ApprovalState; onAsked: () => void }) {
  const t = useT();
  const subject = subjectOf(approval);
  const who = useAgentName(approval);
  const isPlan = approval.kind !== "tool";
  const { run, isBusy, problem } = useAction(async () => {
    await askAgain(approval.id);
    onAsked();
  });
  return (
    <article className={classes(styles.card, styles.quiet)}>
      <div className={styles.head}>
        <p className={styles.what}>
          {isPlan ? t("plans.plan") : wantsText(subject, who, 0)}
          {!isPlan && <Target subject={subject} />}
        </p>
        <Button isBusy={isBusy} onClick={() => void run()}>
          {t("decisions.askAgain")}
        </Button>
      </div>
      <p className="muted small">{t("inbox.expired")}</p>
      <Where place={approval} at={approval.expires_at} onOpen={() => openPanel(viewOf(approval))} />
      <p role="alert">{problem && <Prose text={problemText(problem)} />}</p>
    </article>
  );
}
