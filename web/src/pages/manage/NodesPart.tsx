import { Ellipsis } from "lucide-react";
import { useEffect, useState } from "react";
import { call } from "@/api/client";
import type { Node, NodeControl } from "@/api/types";
import { formatBytes, formatDuration, formatNumber } from "@/i18n/format";
import { problemText } from "@/i18n/problemText";
import { toast } from "@/state/toasts";
import { Ago, Dialog, EmptyState, Form, FormDialog, FormError, IconButton, LoadFailed, Menu, type MenuEntry, Skeleton, Table, TextField, textOf } from "@/ui/components";
import { useAction, useResource, useT } from "@/ui/hooks";
import { Badge } from "@/ui/models";
import styles from "./Manage.module.css";

const LOOK_EVERY_MS = 5_000;
const LISTED = 100;

type Opened = { kind: "passport" | "stop" | "shutdown"; node: Node } | null;

/** Nodes: alive or not, what they do, their passport, and how to control them. */
export function NodesPart() {
  const t = useT();
  const [opened, setOpened] = useState<Opened>(null);
  const [selector, setSelector] = useState("");
  const { data, problem, reload } = useResource(`nodes ${selector}`, (signal) => call("GET /nodes", { query: { limit: LISTED, selector } }, { signal }));
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && reload(), LOOK_EVERY_MS);
    return () => clearInterval(timer);
  }, [reload]);
  const send = async (node: Node, control: NodeControl["control_type"]) => {
    await call("POST /nodes/{name}/control", { path: { name: node.name }, body: { control_type: control } });
    toast(t("manage.controlSent", { name: node.name }));
    reload();
  };
  const control = useAction(send);
  if (data && !data.items.length && !selector) return <EmptyState title={t("manage.noNodes")} text={t("manage.noNodesHint")} />;
  const entries = (node: Node): MenuEntry[] => [
    { label: t("manage.showPassport"), run: () => setOpened({ kind: "passport", node }) },
    node.phase === "Paused" ? { label: t("manage.resume"), run: () => void control.run(node, "resume") } : { label: t("manage.pause"), run: () => void control.run(node, "pause") },
    { kind: "line" },
    { label: t("manage.stopTasks"), isDanger: true, run: () => setOpened({ kind: "stop", node }) },
    { label: t("manage.shutdown"), isDanger: true, run: () => setOpened({ kind: "shutdown", node }) },
  ];
  return (
    <section className="stack" aria-label={t("manage.nodes")}>
      <LabelFilter onChoose={setSelector} />
      <FormError text={control.problem && problemText(control.problem)} />
      {problem && !data && <LoadFailed problem={problem} retry={reload} />}
      {!data && !problem && <Skeleton />}
      {data && !data.items.length && <p role="status">{t("manage.noSuchNodes")}</p>}
      {data && data.items.length > 0 && <NodeTable nodes={data.items} entries={entries} />}
      {opened?.kind === "passport" && <Passport name={opened.node.name} onClose={() => setOpened(null)} />}
      {opened && opened.kind !== "passport" && (
        <FormDialog
          title={opened.kind === "stop" ? t("manage.stopTasks") : t("manage.shutdown")}
          isAlert
          submitKind="danger"
          submitLabel={opened.kind === "stop" ? t("manage.stopTasks") : t("manage.shutdown")}
          onSubmit={() => send(opened.node, opened.kind === "stop" ? "stop" : "shutdown")}
          onClose={() => setOpened(null)}
        >
          <p>{opened.kind === "stop" ? t("manage.confirmStop", { name: opened.node.name }) : t("manage.confirmShutdown", { name: opened.node.name })}</p>
        </FormDialog>
      )}
    </section>
  );
}

/** Chooses nodes by their labels; a mistake is explained before anything changes. */
function LabelFilter({ onChoose }: { onChoose: (selector: string) => void }) {
  const t = useT();
  const choose = async (form: FormData) => {
    const selector = textOf(form, "selector").trim();
    await call("GET /nodes", { query: { limit: 1, selector } });
    onChoose(selector);
  };
  return (
    <div className={styles.filter}>
      <Form submitLabel={t("manage.nodeFilter")} submitKind="plain" onSubmit={choose}>
        <TextField label={t("manage.nodeLabels")} hint={t("manage.nodeLabelsHint")} name="selector" maxLength={1000} autoComplete="off" spellCheck={false} isMono />
      </Form>
    </div>
  );
}

function NodeTable({ nodes, entries }: { nodes: readonly Node[]; entries: (node: Node) => MenuEntry[] }) {
  const t = useT();
  return (
    <Table
      caption={t("manage.nodes")}
      rows={nodes}
      rowKey={({ name }) => name}
      columns={[
        {
          key: "name",
          title: t("manage.node"),
          cell: ({ name, display_name, version, model }) => (
            <>
              <span className="data">{display_name || name}</span>
              <p className="muted small data">{[name, version, model].filter(Boolean).join(" · ")}</p>
            </>
          ),
        },
        { key: "state", title: t("manage.state"), cell: (node) => <NodeState node={node} /> },
        { key: "heartbeat", title: t("manage.heartbeat"), cell: ({ heartbeat_at }) => <Ago at={heartbeat_at} /> },
        {
          key: "load",
          title: t("manage.load"),
          isNumber: true,
          cell: (node) => <NodeLoad node={node} />,
        },
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

/** How many tasks a node has, what they do, and how much memory it takes. */
function NodeLoad({ node: { current_tasks, max_concurrent_tasks, metrics } }: { node: Node }) {
  const t = useT();
  const memory = metrics["memory_mb"];
  return (
    <>
      {formatNumber(current_tasks.length)} / {formatNumber(max_concurrent_tasks)}
      {current_tasks.map(({ task_id, action, phase, elapsed_seconds }) => (
        <p key={task_id} className="muted small data">
          {t("manage.nodeTask", { action, phase, time: formatDuration(elapsed_seconds * 1000) })}
        </p>
      ))}
      {memory !== undefined && <p className="muted small">{formatBytes(memory * 1_000_000)}</p>}
    </>
  );
}

function NodeState({ node: { state, phase } }: { node: Node }) {
  const t = useT();
  if (state === "OFFLINE") return <Badge kind="bad">{t("manage.nodeOffline")}</Badge>;
  const phases = { Running: t("manage.phaseRunning"), Paused: t("manage.phasePaused"), Draining: t("manage.phaseDraining"), Stopped: t("manage.phaseStopped") };
  return (
    <>
      {state === "ALIVE" ? <Badge kind="good">{t("manage.nodeAlive")}</Badge> : <Badge kind="warning">{t("manage.nodeNotReady")}</Badge>} <span className="small">{phases[phase]}</span>
    </>
  );
}

function Passport({ name, onClose }: { name: string; onClose: () => void }) {
  const t = useT();
  const { data, problem, reload } = useResource(`passport ${name}`, (signal) => call("GET /nodes/{name}", { path: { name } }, { signal }));
  return (
    <Dialog title={t("manage.passport", { name })} isWide onClose={onClose}>
      {problem && <LoadFailed problem={problem} retry={reload} />}
      {!data && !problem && <Skeleton />}
      {data && (
        <pre className={`${styles.pre} data`} tabIndex={0}>
          {JSON.stringify(data.passport, null, 2)}
        </pre>
      )}
    </Dialog>
  );
}
