import { useEffect } from "react";
import { call } from "@/api/client";
import type { Agent } from "@/api/types";
import { agentLabel } from "@/ui/agents";
import { classes } from "@/ui/components";
import { useProjectState, useResource, useT } from "@/ui/hooks";
import styles from "./Composer.module.css";
import { AUTO, type PlanMode, type Recipient } from "./recipient";

const MODES: readonly PlanMode[] = ["auto", "ask", "never"];

const LOOK_EVERY_MS = 15_000;
const WATCHED = 20; // agents on nodes, asked one by one

/** Who gets the message. An agent whose node is lost is marked: it can't answer now. */
export function RecipientChip({ recipient }: { recipient: Recipient }) {
  const t = useT();
  const { id: projectId, project } = useProjectState();
  const agents = project?.agents ?? [];
  const lost = useLostNodes(projectId, agents);
  const isLost = agents.some(({ id, name }) => name === recipient.name && lost.includes(id));
  const isGone = recipient.name !== AUTO && !agents.some(({ name }) => name === recipient.name);
  return (
    <select className={classes(styles.to, isLost && styles.lost)} title={isLost ? t("chat.nodeLostHint") : undefined} aria-label={t("chat.recipient")} value={recipient.name} onChange={(event) => recipient.set(event.target.value === AUTO ? null : event.target.value)}>
      <option value={AUTO}>{t("common.auto")}</option>
      {isGone && <option value={recipient.name}>{agentLabel(recipient.name)}</option>}
      {agents.map(({ id, name }) => (
        <option key={id} value={name}>
          {lost.includes(id) ? t("chat.nodeLost", { agent: agentLabel(name) }) : agentLabel(name)}
        </option>
      ))}
    </select>
  );
}

/** Return the agents that run on nodes and have none now. */
function useLostNodes(projectId: number, agents: readonly Agent[]): readonly number[] {
  const ids = agents.flatMap(({ id, runtime }) => (runtime === "node" ? [id] : [])).slice(0, WATCHED);
  const { data, reload } = useResource(ids.length ? `nodes of ${ids.join()}` : null, async (signal) => {
    const ask = (agent_id: number) => call("GET /my/projects/{project_id}/agents/{agent_id}/status", { path: { project_id: projectId, agent_id } }, { signal });
    const answers = await Promise.allSettled(ids.map(ask));
    return answers.flatMap((answer) => (answer.status === "fulfilled" && answer.value.node_lost ? [answer.value.agent_id] : []));
  });
  const isWatched = ids.length > 0;
  useEffect(() => {
    if (!isWatched) return;
    const timer = setInterval(() => !document.hidden && reload(), LOOK_EVERY_MS);
    return () => clearInterval(timer);
  }, [isWatched, reload]);
  return data ?? [];
}

/** When plans are made and asked about; without effect on messages to one agent. */
export function PlanChip({ mode, setMode }: { mode: PlanMode; setMode: (mode: PlanMode) => void }) {
  const t = useT();
  return (
    <select className={styles.to} aria-label={t("chat.planMode")} title={t("chat.planModeHint")} value={mode} onChange={(event) => setMode(event.target.value as PlanMode)}>
      {MODES.map((each) => (
        <option key={each} value={each}>
          {t(`chat.planMode_${each}`)}
        </option>
      ))}
    </select>
  );
}
