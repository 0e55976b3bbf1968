import { call } from "@/api/client";
import type { Agent } from "@/api/types";
import { formatDuration, formatNumber, formatPercent } from "@/i18n/format";
import { Ago, LoadFailed, Money, Skeleton } from "@/ui/components";
import { useResource, useT } from "@/ui/hooks";
import { StateMark } from "./AgentList";
import styles from "./Agents.module.css";
import { Fact } from "./Fact";
import { useStatusEvents } from "./useStatusEvents";

export function AgentActivity({ agent }: { agent: Agent }) {
  const t = useT();
  const path = { project_id: agent.project_id };
  const own = { ...path, agent_id: agent.id };
  const { data, problem, reload } = useResource(`agent activity ${agent.id}`, async (signal) => {
    const [activity, state, figures] = await Promise.all([
      call("GET /my/projects/{project_id}/activity", { path, query: { range: "30d" } }, { signal }),
      call("GET /my/projects/{project_id}/agents/{agent_id}/status", { path: own }, { signal }),
      call("GET /my/projects/{project_id}/agents/{agent_id}/metrics", { path: own }, { signal }),
    ]);
    return { used: activity.by_agent.find(({ agent_id }) => agent_id === agent.id), state, figures };
  });
  useStatusEvents((id) => id === agent.id && reload(), reload);
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton />;
  const { used, state, figures } = data;
  return (
    <>
      <dl className={styles.facts}>
        <Fact name={t("agents.state")} value={<StateMark state={state} />} />
        <Fact name={t("agents.waiting")} value={formatNumber(state.queued_tasks)} />
        {figures.tasks_processed > 0 && <Fact name={t("agents.average")} value={formatDuration(figures.avg_processing_time * 1000)} />}
      </dl>
      <h2>{t("agents.period")}</h2>
      {!used ? (
        <p className="muted">{t("agents.unused")}</p>
      ) : (
        <dl className={styles.facts}>
          <Fact name={t("agents.messages")} value={formatNumber(used.messages)} />
          <Fact name={t("agents.failed")} value={used.messages ? `${formatNumber(used.failed)} (${formatPercent(used.failed / used.messages)})` : "0"} />
          <Fact name={t("agents.cost")} value={<Money usd={used.cost_usd} />} />
          <Fact name={t("agents.lastUsed")} value={used.last_used_at ? <Ago at={used.last_used_at} /> : t("agents.never")} />
        </dl>
      )}
    </>
  );
}
