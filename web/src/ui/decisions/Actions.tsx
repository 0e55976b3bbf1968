import { ChevronDown } from "lucide-react";
import { type RefObject, useState } from "react";
import type { ApprovalState } from "@/api/types";
import { call } from "@/api/client";
import { problemText } from "@/i18n/problemText";
import { type Holds, type Subject, allow, extend, refuse } from "@/state/decisions";
import { openProject } from "@/state/project";
import { toast } from "@/state/toasts";
import { visible } from "@/state/visible";
import { Button, Countdown, FormDialog, Menu, Prose, TextField, textOf } from "@/ui/components";
import { useAction, useCell, useT } from "@/ui/hooks";
import styles from "./Decisions.module.css";

interface AnswersProps {
  approval: ApprovalState;
  subject: Subject;
  decide: ReturnType<typeof useDecision>;
  more?: RefObject<HTMLButtonElement | null>;
  /** The buttons say which key presses them. */
  hasKeys?: boolean;
}

/** The state of answering a question: one answer at a time, and what went wrong with it. */
export function useDecision(approval: ApprovalState) {
  const [isRefusing, setRefusing] = useState(false);
  const allowing = useAction((holds: Holds) => allow(approval.id, holds));
  return { ...allowing, isRefusing, setRefusing };
}

/** Allow once, allow more, refuse: only where the content of the question is in view. */
export function Answers({ approval, subject, decide, more, hasKeys = false }: AnswersProps) {
  const t = useT();
  const { grant, isInTerminal } = subject;
  return (
    <>
      {!isInTerminal && (
        <Button kind="primary" isBusy={decide.isBusy} onClick={() => void decide.run("once")}>
          {t("decisions.allowOnce")}
          {hasKeys && <Key name="⏎" />}
        </Button>
      )}
      {!isInTerminal && grant !== null && (
        <Menu
          label={t("decisions.allowFor")}
          entries={[
            { kind: "heading", label: t("decisions.allowFor") },
            { label: t("decisions.forNow", { glob: visible(grant) }), run: () => void decide.run("session") },
            { label: t("decisions.always", { glob: visible(grant) }), run: () => void decide.run("always") },
          ]}
          trigger={
            <Button {...(more ? { ref: more } : {})}>
              {t("decisions.allowMore")}
              <ChevronDown aria-hidden="true" size={16} />
            </Button>
          }
        />
      )}
      {isInTerminal && <AnswerHere projectId={approval.project_id} />}
      <RefuseButton decide={decide} />
    </>
  );
}

export function RefuseButton({ decide }: { decide: ReturnType<typeof useDecision> }) {
  const t = useT();
  return <Button onClick={() => decide.setRefusing(true)}>{t("decisions.refuse")}</Button>;
}

/** The dialog that asks why; and what went wrong. Stands once beside the answers. */
export function DecisionExtras({ approval, decide }: { approval: ApprovalState; decide: ReturnType<typeof useDecision> }) {
  const t = useT();
  return (
    <>
      {decide.isRefusing && (
        <FormDialog
          title={t("decisions.refuseTitle")}
          submitLabel={t("decisions.refuseIt")}
          submitKind="danger"
          onSubmit={(form) => refuse(approval.id, textOf(form, "why"))}
          onClose={() => decide.setRefusing(false)}
        >
          <TextField label={t("decisions.why")} hint={t("decisions.whyHint")} name="why" maxLength={2000} autoFocus autoComplete="off" />
        </FormDialog>
      )}
      <p role="alert" className={styles.error}>
        {decide.problem && <Prose text={problemText(decide.problem)} />}
      </p>
    </>
  );
}

function AnswerHere({ projectId }: { projectId: number }) {
  const t = useT();
  const { run, isBusy } = useAction(async () => {
    await call("PATCH /my/projects/{project_id}/connector", { path: { project_id: projectId }, body: { ask: "both" } });
    openProject.get()?.reload("connector");
    toast(t("decisions.answerHereDone"));
  });
  return (
    <Button isBusy={isBusy} onClick={() => void run()}>
      {t("decisions.answerHere")}
    </Button>
  );
}

/** Where the answer is taken, if not here. */
export function TerminalHint() {
  const t = useT();
  const project = useCell(openProject);
  const machine = project?.state.get().connector?.machine ?? null;
  return (
    <p className="small">
      <Prose text={machine === null ? t("decisions.inTerminal") : t("decisions.inTerminalOf", { machine: visible(machine) })} />
    </p>
  );
}

/** The time that is left, and more of it. */
export function Deadline({ approval }: { approval: ApprovalState }) {
  const t = useT();
  const { run, isBusy } = useAction(async () => {
    await extend(approval.id);
    toast(t("decisions.moreTimeDone"));
  });
  return (
    <span className={styles.clock}>
      <Countdown until={approval.expires_at} />
      <Button kind="quiet" size="small" isBusy={isBusy} aria-label={`${t("decisions.moreTimeShort")}: ${t("decisions.moreTime")}`} onClick={() => void run()}>
        {t("decisions.moreTimeShort")}
      </Button>
    </span>
  );
}

export function Key({ name }: { name: string }) {
  return (
    <kbd className={styles.key} aria-hidden="true">
      {name}
    </kbd>
  );
}
