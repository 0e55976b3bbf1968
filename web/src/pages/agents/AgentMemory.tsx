import { tOr } from "@/i18n";
import { Pin } from "lucide-react";
import { call } from "@/api/client";
import { LoadFailed, Moment, Skeleton, Switch } from "@/ui/components";
import { useResource, useT } from "@/ui/hooks";
import { Link } from "@/ui/router";
import { paths } from "@/ui/routes";
import type { PartProps } from "./AgentProfile";
import styles from "./Agents.module.css";

const SHOWN = 20;

export function AgentMemory({ agent, change }: PartProps) {
  const t = useT();
  const path = { project_id: agent.project_id, agent_id: agent.id };
  const { data, problem, reload } = useResource(`memories ${agent.id}`, (signal) =>
    call("GET /my/projects/{project_id}/agents/{agent_id}/context", { path, query: { limit: SHOWN } }, { signal }),
  );
  return (
    <>
      <Switch label={t("agents.remembers")} hint={t("agents.remembersHint")} checked={agent.memory} onChange={(event) => change({ memory: event.target.checked })} />
      {problem ? <LoadFailed problem={problem} retry={reload} /> : !data ? <Skeleton /> : null}
      {data && (
        <>
          <p className="row spread">
            <strong>{data.total === 0 ? t("agents.memoriesNone") : t("agents.memories", { count: data.total })}</strong>
            <Link to={paths.memory(agent.project_id)} className="reach">{t("agents.memoryPage")}</Link>
          </p>
          <ul role="list" className={styles.memories}>
            {data.items.map(({ id, content, type, created_at, pinned }) => (
              <li key={id}>
                <p className={`${styles.memoryText ?? ""} data`}>{content}</p>
                <p className="muted small row">
                  {pinned && <Pin aria-hidden="true" size={12} />}
                  <span className="data">{tOr(`memory.kind_${type}`, type)}</span> · <Moment at={created_at} />
                </p>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
