import { ChevronLeft, ChevronRight, CircleHelp } from "lucide-react";
import { type RefObject, useEffect, useRef, useState } from "react";
import type { ApprovalState } from "@/api/types";
import { type Subject, beginningOf, isShort, subjectOf, together, viewOf } from "@/state/decisions";
import { isShown, offerPanel, openPanel, panel } from "@/state/panel";
import { openProject } from "@/state/project";
import type { Conversation } from "@/state/session/conversation";
import { visible } from "@/state/visible";
import { agentLabel } from "@/ui/agents";
import { Button, IconButton, classes } from "@/ui/components";
import { useCell, useMedia, useSelected, useT } from "@/ui/hooks";
import { Answers, Deadline, DecisionExtras, Key, RefuseButton, TerminalHint, useDecision } from "./Actions";
import { ExpiredBar } from "./ExpiredBar";
import { NotifyOffer } from "./NotifyOffer";
import { Target, wantsText } from "./Target";
import { Visible } from "./Visible";
import { Size, Warnings } from "./Warnings";
import { WIDE } from "./layout";
import { composerBeside, useDecisionKeys } from "./useDecisionKeys";
import styles from "./Decisions.module.css";

/** Above the composer: what waits for the user, one question at a time. It never scrolls away. */
export function DecisionBar({ conversation }: { conversation: Conversation }) {
  const approvals = useSelected(conversation.store, (state) => state.approvals);
  const [chosen, setChosen] = useState<string | null>(null);
  const place = Math.max(
    0,
    approvals.findIndex(({ id }) => id === chosen),
  );
  const approval = approvals[place];
  useLeaveDecided(approvals);
  if (!approval) return <ExpiredBar conversation={conversation} />;
  const go = (step: number) => setChosen(approvals[(place + step + approvals.length) % approvals.length]?.id ?? null);
  const files = together(approvals, approval).length;
  return <Bar key={approval.id} approval={approval} conversation={conversation} place={place} count={approvals.length} files={files} go={go} />;
}

/** The panel leaves a question that has been decided. */
function useLeaveDecided(approvals: readonly ApprovalState[]): void {
  const before = useRef(approvals);
  useEffect(() => {
    const gone = before.current.filter(({ id }) => !approvals.some((approval) => approval.id === id));
    before.current = approvals;
    const { view } = panel.get();
    if (view?.kind === "question" && gone.some(({ id }) => id === view.id)) panel.set((shown) => ({ ...shown, view: null }));
  }, [approvals]);
}

interface BarProps {
  approval: ApprovalState;
  conversation: Conversation;
  place: number;
  count: number;
  /** Questions about files that can be answered together with this one. */
  files: number;
  go: (step: number) => void;
}

function Bar({ approval, conversation, place, count, files, go }: BarProps) {
  const t = useT();
  const bar = useRef<HTMLElement>(null);
  const more = useRef<HTMLButtonElement>(null);
  const isWide = useMedia(WIDE);
  const plans = useSelected(conversation.store, (state) => state.plans);
  const subject = subjectOf(approval);
  const decide = useDecision(approval);
  const view = viewOf(approval, plans);
  const isPlan = view.kind === "plan";
  const isInline = !isPlan && isShort(subject);
  // A delete can be undone: its first lines are enough to decide, the rest is one press away.
  const beginning = subject.canBeUndone ? beginningOf(subject) : null;
  const isOpen = isShown(useCell(panel).view, view);
  // Below that width the panel covers the bar, and has the buttons itself.
  const isInView = isInline || beginning !== null || (isOpen && isWide);
  const viewKey = `${view.kind}:${"id" in view ? view.id : ""}`;
  useOfferOnce(viewKey, () => !isInline && beginning === null && isWide && offerPanel(view));
  useFocusOnce(bar);
  const show = () => openPanel(view);
  useDecisionKeys(approval.id, bar, {
    ...(isPlan && isInView ? {} : { Enter: () => (isInView && !subject.isInTerminal ? void decide.run("once") : show()) }),
    ...(!isPlan && isInView && subject.grant !== null ? { a: () => more.current?.click() } : {}),
    ...(isPlan ? {} : { r: () => decide.setRefusing(true) }),
    ...(isInline ? {} : { d: show }),
  });
  return (
    <section ref={bar} className={styles.bar} tabIndex={-1} aria-label={t("decisions.region")}>
      <BarHead approval={approval} subject={subject} tasks={isPlan ? (plans[view.id]?.tasks.length ?? 0) : 0} place={place} count={count} go={go} />
      <Warnings subject={subject} />
      {(isInline || beginning) && subject.canBeUndone && <p className="small muted">{t("decisions.undoable")}</p>}
      {beginning && <Beginning {...beginning} />}
      {isInline && subject.content && (
        <pre className={classes(styles.content, "data")} tabIndex={0}>
          <Visible text={subject.content} keep={"\n\t"} />
        </pre>
      )}
      {subject.isInTerminal && <TerminalHint />}
      <div className={styles.actions}>
        {!isInline && !(isOpen && isWide) && (
          <Button kind={beginning ? "plain" : "primary"} onClick={show}>
            {isPlan ? t("decisions.showPlan") : subject.isDiff ? t("decisions.showDiff") : t("decisions.showContent")}
            <Key name="d" />
          </Button>
        )}
        {!isPlan && isInView && <Answers approval={approval} subject={subject} decide={decide} more={more} hasKeys />}
        {!isPlan && !isInView && <RefuseButton decide={decide} />}
        {files > 1 && (
          <Button onClick={() => openPanel({ kind: "questions", id: `${approval.turn_id} ${String(approval.agent_id)}` })}>{t("decisions.showAll", { count: files })}</Button>
        )}
      </div>
      <DecisionExtras approval={approval} decide={decide} />
      <NotifyOffer />
    </section>
  );
}

/** The first lines of a file that would be deleted. */
function Beginning({ lines, more }: { lines: readonly string[]; more: number }) {
  const t = useT();
  return (
    <pre className={classes(styles.content, styles.gone, "data")} tabIndex={0} aria-label={t("decisions.firstLines")}>
      <Visible text={lines.join("\n")} keep={"\n\t"} />
      {more > 0 && <span className={styles.more}>{t("decisions.moreLines", { count: more })}</span>}
    </pre>
  );
}

function BarHead({ approval, subject, tasks, place, count, go }: Omit<BarProps, "conversation" | "files"> & { subject: Subject; tasks: number }) {
  const t = useT();
  const who = useAgentName(approval);
  return (
    <div className={styles.head}>
      <CircleHelp className={styles.icon} aria-hidden="true" size={18} />
      <p className={styles.what}>
        <span className={styles.who}>{wantsText(subject, who, tasks)}</span>
        {!["plan", "budget"].includes(subject.verb) && <Target subject={subject} />}
        {subject.size && <Size {...subject.size} />}
      </p>
      {count > 1 && (
        <span className={styles.pager}>
          <IconButton label={t("decisions.previous")} onClick={() => go(-1)}>
            <ChevronLeft aria-hidden="true" size={16} />
          </IconButton>
          {t("decisions.ofMany", { place: place + 1, count })}
          <IconButton label={t("decisions.next")} onClick={() => go(1)}>
            <ChevronRight aria-hidden="true" size={16} />
          </IconButton>
        </span>
      )}
      <Deadline approval={approval} />
    </div>
  );
}

/** Return the name of who asks, for people. */
export function useAgentName({ agent, agent_id: id }: Pick<ApprovalState, "agent" | "agent_id">): string {
  const t = useT();
  const project = useCell(openProject);
  const name = agent ?? project?.agentName(id) ?? null;
  return name === null ? t("decisions.anAgent") : visible(agentLabel(name));
}

/** Do something when a question comes up, not when the panel is closed again. */
function useOfferOnce(key: string, offer: () => void): void {
  const offered = useRef<string | null>(null);
  useEffect(() => {
    if (offered.current === key) return;
    offered.current = key;
    offer();
  });
}

/** Take the focus when a question comes up, if nobody types: then its keys work at once. */
function useFocusOnce(bar: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const { activeElement } = document;
    const composer = composerBeside(bar.current);
    const isIdle = activeElement === null || activeElement === document.body || (activeElement === composer && composer.value === "");
    if (isIdle && (composer === null || composer.value === "")) bar.current?.focus({ preventScroll: true });
  }, [bar]);
}
