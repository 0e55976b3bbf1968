import { Plus, Upload } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import type { Agent, AgentActivity, AgentStatusAnswer } from "@/api/types";
import { tOr } from "@/i18n";
import { formatPercent } from "@/i18n/format";
import { Ago, Avatar, Button, EmptyState, Money, classes } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useProject, useProjectState, useResource, useT } from "@/ui/hooks";
import { Link } from "@/ui/router";
import { paths } from "@/ui/routes";
import { PageFrame } from "@/ui/shell";
import styles from "./Agents.module.css";
import { CreateAgent } from "./CreateAgent";
import { ImportAgent } from "./ImportAgent";
import { useStatusEvents } from "./useStatusEvents";

const WATCHED = 50; // states are asked one by one

/** The team in rows. */
export function AgentList() {
  const t = useT();
  const { id: projectId, project } = useProjectState();
  const agents = project?.agents ?? [];
  const [dialog, setDialog] = useState<"create" | "import" | null>(null);
  const path = { project_id: projectId };
  const activity = useResource(`activity ${projectId} 30d`, (signal) => call("GET /my/projects/{project_id}/activity", { path, query: { range: "30d" } }, { signal }));
  const states = useStates(projectId, agents);
  const buttons = (
    <>
      <Button kind="quiet" onClick={() => setDialog("import")}>
        <Upload aria-hidden="true" size={16} />
        <span className="roomy">{t("agents.import")}</span>
      </Button>
      <Button kind="primary" onClick={() => setDialog("create")}>
        <Plus aria-hidden="true" size={16} />
        <span className="roomy">{t("agents.new")}</span>
      </Button>
    </>
  );
  return (
    <PageFrame title={t("agents.title")} actions={buttons}>
      {agents.length === 0 && <EmptyState title={t("agents.empty")} text={t("agents.emptyText")} />}
      {agents.length > 0 && (
        <div className={styles.list}>
          <div className={classes(styles.agentRow, styles.agentHead)} aria-hidden="true">
            {[t("agents.name"), t("agents.model"), t("agents.state"), t("agents.success"), t("agents.cost"), t("agents.lastUsed")].map((title) => (
              <span key={title}>{title}</span>
            ))}
          </div>
          <ul role="list" aria-label={t("agents.title")}>
            {asTree(agents).map(({ agent, depth }) => (
              <AgentRow
                key={agent.id}
                agent={agent}
                depth={depth}
                state={states?.[agent.id]}
                figures={activity.data ? (activity.data.by_agent.find(({ agent_id }) => agent_id === agent.id) ?? null) : undefined}
              />
            ))}
          </ul>
        </div>
      )}
      {dialog === "create" && <CreateAgent onClose={() => setDialog(null)} />}
      {dialog === "import" && <ImportAgent onClose={() => setDialog(null)} />}
    </PageFrame>
  );
}

/** What the agents do now. One that can't be asked has no state. */
function useStates(projectId: number, agents: readonly Agent[]): Readonly<Record<number, AgentStatusAnswer>> | null {
  const ids = agents.slice(0, WATCHED).map(({ id }) => id);
  const { data, reload, setData } = useResource(ids.length ? `states ${ids.join()}` : null, async (signal) => {
    const ask = (agent_id: number) => call("GET /my/projects/{project_id}/agents/{agent_id}/status", { path: { project_id: projectId, agent_id } }, { signal });
    const answers = await Promise.allSettled(ids.map(ask));
    return Object.fromEntries(answers.flatMap((answer) => (answer.status === "fulfilled" ? [[answer.value.agent_id, answer.value]] : [])));
  });
  useStatusEvents(
    (agentId, status) =>
      setData((states) => {
        const state = states[agentId];
        return state ? { ...states, [agentId]: { ...state, status, registered: true } } : states;
      }),
    reload,
  );
  return data;
}

interface RowProps {
  agent: Agent;
  depth: number;
  state: AgentStatusAnswer | undefined;
  /** undefined while it is loaded; null: not used. */
  figures: AgentActivity | null | undefined;
}

function AgentRow({ agent, depth, state, figures }: RowProps) {
  const t = useT();
  const project = useProject();
  const parent = depth > 0 ? project.agentName(agent.parent_agent_id ?? null) : null;
  return (
    <li>
      <Link to={paths.agents(agent.project_id, agent.id)} className={classes(styles.agentRow, styles.agentLink)}>
        <span className={styles.who} style={{ paddingInlineStart: `${Math.min(depth, 4) * 1.25}rem` }}>
          <Avatar agent={agent.name} />
          <span className={styles.names}>
            <strong className="ellipsis data">{agentLabel(agent.name)}</strong>
            <span className="ellipsis muted small data">{parent ? `${agent.role} · ${t("agents.child", { agent: agentLabel(parent) })}` : agent.role}</span>
          </span>
        </span>
        <span className="ellipsis data small">{agent.model}</span>
        <StateMark state={state} />
        <Figure title={t("agents.success")}>{figures && figures.messages > 0 ? formatPercent(1 - figures.failed / figures.messages) : "–"}</Figure>
        <Figure title={t("agents.cost")}>{figures ? <Money usd={figures.cost_usd} /> : "–"}</Figure>
        <Figure title={t("agents.lastUsed")}>{figures?.last_used_at ? <Ago at={figures.last_used_at} /> : figures === undefined ? "" : t("agents.never")}</Figure>
      </Link>
    </li>
  );
}

function Figure({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <span className={styles.figure}>
      <span className="unseen">{title} </span>
      {children}
    </span>
  );
}

/** A dot and a word: what an agent does now. */
export function StateMark({ state }: { state: AgentStatusAnswer | undefined }) {
  const t = useT();
  const status = state === undefined ? "unknown" : state.registered || state.status !== "idle" ? state.status : "asleep";
  return (
    <span className={styles.state} data-status={status} title={status === "asleep" ? t("agents.asleepHint") : undefined}>
      <span className={styles.dot} aria-hidden="true" />
      {tOr(`agents.status_${status}`, status)}
    </span>
  );
}

/** Return the agents with those that they created below them. */
function asTree(agents: readonly Agent[]): { agent: Agent; depth: number }[] {
  const ids = new Set(agents.map(({ id }) => id));
  const isTop = ({ parent_agent_id }: Agent) => parent_agent_id === null || parent_agent_id === undefined || !ids.has(parent_agent_id);
  const below = (agent: Agent, depth: number): { agent: Agent; depth: number }[] => [
    { agent, depth },
    ...agents.filter(({ parent_agent_id }) => parent_agent_id === agent.id).flatMap((child) => below(child, depth + 1)),
  ];
  return agents.filter(isTop).flatMap((agent) => below(agent, 0));
}
