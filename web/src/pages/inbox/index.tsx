import { Inbox as InboxIcon } from "lucide-react";
import { useEffect } from "react";
import type { PageProps } from "@/App";
import { call } from "@/api/client";
import { inbox, refreshInbox } from "@/state/inbox";
import { EmptyState, Skeleton } from "@/ui/components";
import { useCell, useResource, useT } from "@/ui/hooks";
import { PageFrame } from "@/ui/shell";
import { MissedCard, QuestionCard } from "./QuestionCard";
import styles from "./Inbox.module.css";

const MISSED = 10;

/** `/inbox` and `/p/:project/inbox`: every question that waits for the user, newest first, and what nobody answered. */
export default function InboxPage({ route }: PageProps) {
  const t = useT();
  const { pending, total, isLoaded } = useCell(inbox);
  useEffect(() => refreshInbox(), []);
  const missed = useResource(`expired ${total}`, (signal) => call("GET /my/approvals", { query: { status: "expired", limit: MISSED } }, { signal }));
  const isHere = ({ project_id }: { project_id: number }) => route.projectId === null || project_id === route.projectId;
  const shown = [...pending].filter(isHere).sort((one, other) => (one.created_at < other.created_at ? 1 : -1));
  const expired = missed.data?.items.filter(isHere) ?? [];
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
      {expired.length > 0 && (
        <section className={styles.list} aria-label={t("inbox.missed")}>
          <h2>{t("inbox.missed")}</h2>
          {expired.map((approval) => (
            <MissedCard
              key={approval.id}
              approval={approval}
              onAsked={() => {
                refreshInbox();
                missed.reload();
              }}
            />
          ))}
        </section>
      )}
    </PageFrame>
  );
}
