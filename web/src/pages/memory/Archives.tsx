import { call, urlOf } from "@/api/client";
import { Avatar, Moment } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useResource, useT } from "@/ui/hooks";
import styles from "./Memory.module.css";

/** Memories of deleted agents, to download; nothing without one. */
export function Archives({ projectId }: { projectId: number }) {
  const t = useT();
  const path = { project_id: projectId };
  const { data } = useResource(`archives ${projectId}`, (signal) => call("GET /my/projects/{project_id}/archives", { path, query: { limit: 100 } }, { signal }));
  if (!data?.items.length) return null;
  return (
    <section aria-labelledby="archives">
      <h2 id="archives">{t("memory.archives")}</h2>
      <p className="muted small">{t("memory.archivesHint")}</p>
      <ul role="list" className={styles.list}>
        {data.items.map(({ id, agent, memories, created_at }) => (
          <li key={id} className={styles.row}>
            <Avatar agent={agent} />
            <div className={styles.text}>
              <p className="data">{agentLabel(agent)}</p>
              <p className={styles.about}>
                <span>{t("memory.archiveSize", { count: memories })}</span>
                <Moment at={created_at} />
              </p>
            </div>
            <a href={urlOf("/my/projects/{project_id}/archives/{archive_id}", { ...path, archive_id: id })} download>
              {t("memory.download")}
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}
