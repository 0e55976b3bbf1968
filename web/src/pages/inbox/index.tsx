import { Inbox as InboxIcon } from "lucide-react";
import { useEffect } from "react";
import type { PageProps } from "@/App";
import { call } from "@/api/client";
import { inbox, refreshInbox } from "@/state/inbox";
import { markSeen, missedOf, seen } from "@/state/missed";
import { Button, EmptyState, Skeleton } from "@/ui/components";
import { useCell, useResource, useT } from "@/ui/hooks";
import { PageFrame } from "@/ui/shell";
import { FailedCard, MissedCard, QuestionCard } from "./QuestionCard";
import styles from "./Inbox.module.css";

const MISSED = 20;

/** `/inbox` and `/p/:project/inbox`: every question that waits for the user, and what was missed; newest first. */
export default function InboxPage({ route }: PageProps) {
  const t = useT();
  const { pending, total, isLoaded } = useCell(inbox);
  const known = useCell(seen);
  useEffect(() => refreshInbox(), []);
  const { data: late, reload: reloadLate } = useResource("expired", (signal) => call("GET /my/approvals", { query: { status: "expired", limit: MISSED } }, { signal }));
  const { data: failures, reload: reloadFailures } = useResource("failures", (signal) => call("GET /my/failures", { query: { limit: MISSED } }, { signal }));
  useEffect(() => {
    if (!isLoaded) return;
    reloadLate(); // whenever the inbox is loaded again
    reloadFailures();
  }, [pending, isLoaded, reloadLate, reloadFailures]);
  const isHere = ({ project_id }: { project_id: number }) => route.projectId === null || project_id === route.projectId;
  const shown = [...pending].filter(isHere).sort((one, other) => (one.created_at < other.created_at ? 1 : -1));
  const missed = missedOf(late?.items.filter(isHere) ?? [], failures?.items.filter(isHere) ?? [], known);
  return (
    <PageFrame title={t("inbox.title")}>
      {!isLoaded ? (
        <Skeleton />
      ) : shown.length === 0 ? (
        <EmptyState title={t("inbox.empty")} text={t("inbox.emptyText")} icon={<InboxIcon aria-hidden="true" size={32} />} />
      ) : (
        <section className={styles.list} aria-label={t("inbox.waiting")}>
          {shown.map((approval, place) => (
            <QuestionCard key={approval.id} approval={approval} isFirst={place === 0} />
          ))}
          {total > pending.length && <p className="muted">{t("inbox.more", { count: total - pending.length })}</p>}
        </section>
      )}
      {missed.length > 0 && (
        <section className={styles.list} aria-label={t("inbox.missed")}>
          <div className={styles.head}>
            <h2 className={styles.what}>{t("inbox.missed")}</h2>
            <Button onClick={() => markSeen(missed.map(({ id }) => id))}>{t("inbox.markSeen")}</Button>
          </div>
          {missed.map((each) =>
            each.kind === "failed" ? (
              <FailedCard key={each.id} failure={each.failure} />
            ) : (
              <MissedCard
                key={each.id}
                approval={each.approval}
                onAsked={() => {
                  refreshInbox();
                  reloadLate();
                }}
              />
            ),
          )}
        </section>
      )}
    </PageFrame>
  );
}
