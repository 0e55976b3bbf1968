import { useEffect, useRef, useState } from "react";
import { Problem } from "@/api/problem";
import type { ApprovalState } from "@/api/types";
import { problemText } from "@/i18n/problemText";
import { allow, subjectOf } from "@/state/decisions";
import { toast } from "@/state/toasts";
import { Button, Prose, classes } from "@/ui/components";
import { useAction, useT } from "@/ui/hooks";
import { Question } from "./Question";
import { Visible } from "./Visible";
import { Size } from "./Warnings";
import styles from "./Decisions.module.css";

const DECIDED = 409; // somebody was faster with one of them

/** Several files that an agent wants to write in the same turn, each with its diff, and one button for all of them. */
export function AllQuestions({ approvals, onSeen }: { approvals: readonly ApprovalState[]; onSeen: (id: string) => void }) {
  const t = useT();
  const frame = useRef<HTMLDivElement>(null);
  const ids = approvals.map(({ id }) => id).join(" ");
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) if (isIntersecting && target instanceof HTMLElement) onSeen(target.dataset["end"] ?? "");
    });
    for (const end of frame.current?.querySelectorAll("[data-end]") ?? []) observer.observe(end);
    return () => observer.disconnect();
  }, [ids, onSeen]);
  const go = (id: string) => frame.current?.querySelector(`[data-question="${CSS.escape(id)}"]`)?.scrollIntoView({ block: "start" });
  return (
    <div ref={frame} className={styles.question}>
      <nav className={styles.changes} aria-label={t("decisions.diffFiles")}>
        {approvals.map((approval) => {
          const { target, size } = subjectOf(approval);
          return (
            <button key={approval.id} type="button" className={styles.change} onClick={() => go(approval.id)}>
              <span className={classes(styles.path, "ellipsis", "data")}>
                <Visible text={target} />
              </span>
              {size && <Size {...size} />}
            </button>
          );
        })}
      </nav>
      {approvals.map((approval) => (
        <section key={approval.id} data-question={approval.id} className={styles.one} aria-label={subjectOf(approval).target}>
          <Question approval={approval} />
          <span data-end={approval.id} />
        </section>
      ))}
    </div>
  );
}

/** Each answer is for exactly what its question has shown; none before all of it was in view. */
export function AllowAll({ approvals, seen }: { approvals: readonly ApprovalState[]; seen: ReadonlySet<string> }) {
  const t = useT();
  const isSeen = approvals.every(({ id }) => seen.has(id));
  const { run, isBusy, problem } = useAction(async () => {
    let count = 0;
    for (const { id } of approvals) {
      try {
        await allow(id, "once");
        count++;
      } catch (failure) {
        if (!(failure instanceof Problem) || failure.status !== DECIDED) throw failure;
      }
    }
    if (count) toast(t("decisions.allowedAll", { count }));
  });
  return (
    <>
      <div className={styles.actions}>
        <Button kind="primary" isBusy={isBusy} isDisabled={!isSeen} onClick={() => void run()}>
          {t("decisions.allowAll", { count: approvals.length })}
        </Button>
        {!isSeen && <span className="small muted">{t("decisions.allowAllHint")}</span>}
      </div>
      <p role="alert" className={styles.error}>
        {problem && <Prose text={problemText(problem)} />}
      </p>
    </>
  );
}

/** Remember which questions were in view to their end. */
export function useSeen(): [ReadonlySet<string>, (id: string) => void] {
  const [seen, setSeen] = useState<ReadonlySet<string>>(new Set());
  const [note] = useState(() => (id: string) => setSeen((before) => (before.has(id) ? before : new Set([...before, id]))));
  return [seen, note];
}
