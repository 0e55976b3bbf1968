import { Plus } from "lucide-react";
import { useEffect, useState } from "react";
import { call } from "@/api/client";
import type { Node, NodeControl } from "@/api/types";
import { problemText } from "@/i18n/problemText";
import { toast } from "@/state/toasts";
import { Button, EmptyState, Form, FormDialog, FormError, LoadFailed, type MenuEntry, Skeleton, TextField, textOf } from "../components";
import { useAction, useResource, useT } from "../hooks";
import { AddNode } from "./AddNode";
import { NodeTable } from "./NodeTable";
import styles from "./Nodes.module.css";
import { Passport } from "./Passport";

const LOOK_EVERY_MS = 5_000;
const LISTED = 100;

type Opened = { kind: "passport" | "stop" | "shutdown"; node: Node } | null;

/** Nodes, for administrators: alive or not, what they do, their passport, and how to control them. */
export function Nodes() {
  const t = useT();
  const [opened, setOpened] = useState<Opened>(null);
  const [isAdding, setAdding] = useState(false);
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
  const entries = (node: Node): MenuEntry[] => [
    { label: t("manage.showPassport"), run: () => setOpened({ kind: "passport", node }) },
    node.phase === "Paused" ? { label: t("manage.resume"), run: () => void control.run(node, "resume") } : { label: t("manage.pause"), run: () => void control.run(node, "pause") },
    { kind: "line" },
    { label: t("manage.stopTasks"), isDanger: true, run: () => setOpened({ kind: "stop", node }) },
    { label: t("manage.shutdown"), isDanger: true, run: () => setOpened({ kind: "shutdown", node }) },
  ];
  const hasFilter = selector !== "" || (data?.items.length ?? 0) > 1;
  return (
    <section className="stack" aria-label={t("manage.nodes")}>
      <div>
        <Button kind="primary" onClick={() => setAdding(true)}>
          <Plus aria-hidden="true" size={16} />
          {t("manage.addNode")}
        </Button>
      </div>
      {isAdding && <AddNode onClose={() => setAdding(false)} />}
      {hasFilter && <LabelFilter onChoose={setSelector} />}
      <FormError text={control.problem && problemText(control.problem)} />
      {!data && !problem && <Skeleton />}
      {problem && !data && <LoadFailed problem={problem} retry={reload} />}
      {data?.items.length === 0 && (selector ? <EmptyState title={t("manage.noSuchNodes")} /> : <EmptyState title={t("manage.noNodes")} text={t("manage.noNodesHint")} />)}
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
