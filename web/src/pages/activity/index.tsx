import { useEffect, useState } from "react";
import { call } from "@/api/client";
import type { Activity, AgentActivity } from "@/api/types";
import { formatNumber, formatPercent } from "@/i18n/format";
import { accountState } from "@/state/account";
import { Ago, Avatar, EmptyState, LoadFailed, Money, Skeleton, Table } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useCell, useProject, useResource, useT } from "@/ui/hooks";
import { Link } from "@/ui/router";
import { paths } from "@/ui/routes";
import { Nodes } from "@/ui/nodes";
import { PageFrame } from "@/ui/shell";
import styles from "./Activity.module.css";
import { Alerts } from "./Alerts";
import { AuditLog } from "./AuditLog";
import { ActivityTable, Charts, Work } from "./Charts";
import { RepairMenu } from "./RepairMenu";
import { Summary } from "./Summary";
import { isQuiet } from "./series";

type Range = Activity["range"];
const RANGES: readonly Range[] = ["24h", "7d", "30d"];

/** `/p/:project/activity`: how the project is doing. */
export default function ActivityPage() {
  const t = useT();
  const project = useProject();
  const account = useCell(accountState);
  const isAdmin = account.phase === "signed_in" && account.account.is_admin;
  const [range, setRange] = useState<Range>("24h");
  const path = { project_id: project.id };
  const health = useResource(`health ${project.id}`, (signal) => call("GET /my/projects/{project_id}/space/health", { path }, { signal }));
  const work = useResource(`work ${project.id}`, async (signal) => ({ space: await call("GET /my/projects/{project_id}/space", { path }, { signal }), now: new Date().toISOString() }));
  const alerts = useResource(`alerts ${project.id}`, (signal) => call("GET /my/projects/{project_id}/alerts", { path, query: { limit: 50 } }, { signal }));
  const activity = useResource(`activity ${project.id} ${range}`, (signal) => call("GET /my/projects/{project_id}/activity", { path, query: { range } }, { signal }));
  const { reload: reloadHealth } = health;
  const { reload: reloadWork } = work;
  const { reload: reloadAlerts } = alerts;
  useEffect(
    () =>
      project.onEvent(({ type }) => {
        if (!type.startsWith("alert")) return;
        reloadHealth();
        reloadWork();
        reloadAlerts();
      }),
    [project, reloadHealth, reloadWork, reloadAlerts],
  );
  const problem = health.problem ?? activity.problem ?? work.problem;
  const reloadAll = () => {
    reloadHealth();
    reloadWork();
    reloadAlerts();
    activity.reload();
  };
  return (
    <PageFrame title={t("activity.title")} actions={<RepairMenu onDone={reloadAll} />}>
      {problem && <LoadFailed problem={problem} retry={reloadAll} />}
      {!problem && (!health.data || !activity.data) && <Skeleton />}
      {!problem && health.data && activity.data && <Summary health={health.data} activity={activity.data} />}
      {!problem && activity.data && <Figures activity={activity.data} range={range} setRange={setRange} />}
      {!problem && work.data && <Work {...work.data} />}
      <Alerts alerts={alerts} />
      {isAdmin && (
        <div className="stack">
          <h2>{t("activity.nodes")}</h2>
          <Nodes />
        </div>
      )}
      <AuditLog />
    </PageFrame>
  );
}

function Figures({ activity, range, setRange }: { activity: Activity; range: Range; setRange: (range: Range) => void }) {
  const t = useT();
  const [isTable, setTable] = useState(false);
  return (
    <section aria-label={t("activity.title")} className="stack">
      <div className={styles.bar}>
        <Choice label={t("activity.range")} options={RANGES.map((each) => [each, t(`activity.range_${each}`)])} value={range} choose={setRange} />
        <Choice
          label={t("activity.view")}
          options={[
            ["chart", t("activity.asChart")],
            ["table", t("activity.asTable")],
          ]}
          value={isTable ? "table" : "chart"}
          choose={(view) => setTable(view === "table")}
        />
      </div>
      {isQuiet(activity.buckets) ? <EmptyState title={t("activity.noAnswers")} text={t("activity.nothingYet")} /> : isTable ? <ActivityTable activity={activity} /> : <Charts activity={activity} />}
      {activity.by_agent.length > 0 && <ByAgent rows={activity.by_agent} />}
    </section>
  );
}

/** A few choices side by side; one is chosen. */
function Choice<V extends string>({ label, options, value, choose }: { label: string; options: readonly (readonly [V, string])[]; value: V; choose: (value: V) => void }) {
  return (
    <div role="group" aria-label={label} className={styles.choice}>
      {options.map(([each, text]) => (
        <button key={each} type="button" aria-pressed={each === value} onClick={() => choose(each)}>
          {text}
        </button>
      ))}
    </div>
  );
}

function ByAgent({ rows }: { rows: readonly AgentActivity[] }) {
  const t = useT();
  const project = useProject();
  const name = ({ agent, agent_id }: AgentActivity) =>
    agent_id === null ? (
      t("activity.orchestrator")
    ) : (
      <span className="row">
        <Avatar agent={agent} />
        {project.agentName(agent_id) === null ? <span className="data">{agentLabel(agent)}</span> : <Link to={paths.agents(project.id, agent_id)} className="reach">{agentLabel(agent)}</Link>}
      </span>
    );
  return (
    <Table
      caption={t("activity.byAgent")}
      rows={rows}
      rowKey={({ agent_id }) => agent_id ?? 0}
      columns={[
        { key: "agent", title: t("activity.agent"), cell: name },
        { key: "messages", title: t("activity.messages"), cell: ({ messages }) => formatNumber(messages), isNumber: true },
        { key: "failed", title: t("activity.failed"), cell: ({ messages, failed }) => (messages ? formatPercent(failed / messages) : "–"), isNumber: true },
        { key: "cost", title: t("activity.cost"), cell: ({ cost_usd }) => <Money usd={cost_usd} />, isNumber: true },
        { key: "last", title: t("activity.lastUsed"), cell: ({ last_used_at }) => (last_used_at ? <Ago at={last_used_at} /> : "–"), isNumber: true },
      ]}
    />
  );
}
