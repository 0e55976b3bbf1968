import { call } from "@/api/client";
import { formatPercent } from "@/i18n/format";
import { LoadFailed, Skeleton } from "@/ui/components";
import { useResource, useT } from "@/ui/hooks";
import { Link } from "@/ui/router";
import { paths } from "@/ui/routes";
import styles from "./AnswerDetails.module.css";

const QUERY_CHARACTERS = 200;

/** The memories that an answer used, why each one was used, and where it can be changed or forgotten. */
export function UsedMemories({ projectId, sessionId, turnId }: { projectId: number; sessionId: string; turnId: string }) {
  const t = useT();
  const { data, problem, reload } = useResource(`context ${turnId}`, (signal) =>
    call("GET /my/chat/{session_id}/turns/{turn_id}/context", { path: { session_id: sessionId, turn_id: turnId } }, { signal }),
  );
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton lines={2} />;
  return (
    <section aria-label={t("chat.detailMemories")}>
      <h3>{t("chat.detailMemories")}</h3>
      <ul role="list" className={styles.memories}>
        {data.items.map(({ memory_id, content, score }) => (
          <li key={memory_id}>
            <p className={`${styles.memory ?? ""} data`}>{content}</p>
            <p className="muted small">
              {t("chat.whyUsed", { share: formatPercent(Math.min(score, 1)) })} <Link to={paths.memory(projectId, content.slice(0, QUERY_CHARACTERS))}>{t("chat.inMemory")}</Link>
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}
