import { Ellipsis } from "lucide-react";
import type { Node } from "@/api/types";
import { formatBytes, formatDuration, formatNumber } from "@/i18n/format";
import { Ago, IconButton, Menu, type MenuEntry, Table } from "../components";
import { useT } from "../hooks";
import { Badge } from "../models";
import styles from "./Nodes.module.css";

const BYTES_PER_MB = 1_000_000;

export function NodeTable({ nodes, entries }: { nodes: readonly Node[]; entries: (node: Node) => MenuEntry[] }) {
  const t = useT();
  return (
    <Table
      caption={t("manage.nodes")}
      rows={nodes}
      rowKey={({ name }) => name}
      columns={[
        { key: "name", title: t("manage.node"), cell: (node) => <Name node={node} /> },
        { key: "state", title: t("manage.state"), cell: (node) => <NodeState node={node} /> },
        { key: "heartbeat", title: t("manage.heartbeat"), isShort: true, cell: ({ heartbeat_at }) => <Ago at={heartbeat_at} /> },
        { key: "tasks", title: t("manage.load"), cell: (node) => <Tasks node={node} /> },
        { key: "capabilities", title: t("manage.capabilities"), cell: ({ capabilities }) => <span className="data small">{capabilities.join(", ") || "–"}</span> },
        {
          key: "actions",
          title: <span className="unseen">{t("common.more")}</span>,
          isNumber: true,
          cell: (node) => (
            <Menu
              label={t("manage.actionsOf", { name: node.name })}
              align="end"
              entries={entries(node)}
              trigger={
                <IconButton label={t("manage.actionsOf", { name: node.name })}>
                  <Ellipsis aria-hidden="true" size={18} />
                </IconButton>
              }
            />
          ),
        },
      ]}
    />
  );
}

function Name({ node: { name, display_name, version, model, labels } }: { node: Node }) {
  // Capabilities are labels too, and have a column of their own.
  const own = Object.entries(labels).filter(([key]) => !key.startsWith("capability."));
  return (
    <div>
      <strong className="data">{display_name || name}</strong>
      <p className="muted small data">{[name, version, model].filter(Boolean).join(" · ")}</p>
      {own.length > 0 && (
        <p className={styles.labels}>
          {own.map(([key, value]) => (
            <code key={key} className="data">{`${key}=${value}`}</code>
          ))}
        </p>
      )}
    </div>
  );
}

function NodeState({ node: { state, phase } }: { node: Node }) {
  const t = useT();
  if (state === "OFFLINE") return <Badge kind="bad">{t("manage.nodeOffline")}</Badge>;
  const phases = { Running: t("manage.phaseRunning"), Paused: t("manage.phasePaused"), Draining: t("manage.phaseDraining"), Stopped: t("manage.phaseStopped") };
  return (
    <div>
      {state === "ALIVE" ? <Badge kind="good">{t("manage.nodeAlive")}</Badge> : <Badge kind="warning">{t("manage.nodeNotReady")}</Badge>}
      <p className="small">{phases[phase]}</p>
    </div>
  );
}

/** What a node does now, and what it has done. */
function Tasks({ node: { current_tasks, max_concurrent_tasks, tasks_processed, uptime, metrics } }: { node: Node }) {
  const t = useT();
  const memory = metrics["memory_mb"];
  const past = [
    t("manage.tasksDone", { count: tasks_processed }),
    t("manage.runsFor", { time: formatDuration(uptime * 1000) }),
    typeof memory === "number" ? formatBytes(memory * BYTES_PER_MB) : null,
  ];
  return (
    <div>
      <p>{t("manage.busy", { busy: formatNumber(current_tasks.length), slots: formatNumber(max_concurrent_tasks) })}</p>
      {current_tasks.map(({ task_id, action, phase, elapsed_seconds, idle_seconds }) => (
        <p key={task_id} className="small data">
          {t("manage.currentTask", { action, phase, time: formatDuration(elapsed_seconds * 1000), idle: formatDuration(idle_seconds * 1000) })}
        </p>
      ))}
      <p className="muted small">{past.filter(Boolean).join(" · ")}</p>
    </div>
  );
}
