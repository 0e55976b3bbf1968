import { FolderOpen } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import type { ConnectorState } from "@/api/types";
import { problemText } from "@/i18n/problemText";
import { toast } from "@/state/toasts";
import { visible } from "@/state/visible";
import { Ago, Button, Command, EmptyState, Prose, Select, Skeleton, Tabs } from "@/ui/components";
import { connectElsewhere } from "@/ui/connectCommands";
import { useAction, useProject, useProjectState, useT } from "@/ui/hooks";
import styles from "./Files.module.css";

/** The connected folder and its mode, or how to connect one. */
export function Folder() {
  const { connector } = useProjectState();
  if (connector === null) return <Skeleton />;
  return connector.online ? <Connected connector={connector} /> : <NotConnected />;
}

function Connected({ connector }: { connector: ConnectorState }) {
  const t = useT();
  const project = useProject();
  const path = { project_id: project.id };
  const change = useAction(async (mode: string) => {
    const body = mode === "read-only" ? { read_only: true } : { ask: mode as "browser" | "terminal" | "both", read_only: false };
    await call("PATCH /my/projects/{project_id}/connector", { path, body });
    project.reload("connector");
    toast(t("files.modeChanged"));
  });
  const leave = useAction(async () => {
    await call("POST /my/projects/{project_id}/connector/disconnect", { path });
    project.reload("connector");
    toast(t("files.disconnected"));
  });
  const problem = change.problem ?? leave.problem;
  const mode = connector.read_only ? "read-only" : (connector.ask ?? "yes");
  const options = [
    { value: "browser", label: t("files.modeBrowser") },
    { value: "terminal", label: t("files.modeTerminal") },
    { value: "both", label: t("files.modeBoth") },
    { value: "read-only", label: t("files.modeReadOnly") },
    ...(mode === "yes" ? [{ value: "yes", label: t("files.modeYes") }] : []),
  ];
  return (
    <div className={styles.card}>
      <div className={styles.head}>
        <span className={styles.name}>
          <FolderOpen aria-hidden="true" size={20} />
          <span className="data">{visible(connector.workspace_name ?? "")}</span>
        </span>
        <Button isBusy={leave.isBusy} onClick={() => void leave.run()}>
          {t("files.disconnect")}
        </Button>
      </div>
      <Select label={t("files.mode")} value={mode} options={options} onChange={(event) => void change.run(event.target.value)} />
      <p role="alert" className={styles.error}>
        {problem && <Prose text={problemText(problem)} />}
      </p>
      <dl className={styles.facts}>
        {connector.machine && (
          <>
            <dt>{t("files.machine")}</dt>
            <dd className="data">{visible(connector.machine)}</dd>
          </>
        )}
        {connector.since && (
          <>
            <dt>{t("files.since")}</dt>
            <dd>
              <Ago at={connector.since} />
            </dd>
          </>
        )}
        <dt>{t("files.commands")}</dt>
        <dd className="data">{connector.commands.length ? connector.commands.map((name) => <code key={name}>{visible(name)}</code>) : t("files.noCommands")}</dd>
      </dl>
    </div>
  );
}

type Way = "here" | "other" | "later";

/** The three ways, with commands to copy. */
export function NotConnected() {
  const t = useT();
  const { id } = useProjectState();
  const [way, setWay] = useState<Way>("here");
  const commands: Record<Way, string[]> = {
    here: ["artel up"],
    other: connectElsewhere(id),
    later: [],
  };
  const texts = { here: t("files.wayHereText"), other: t("files.wayOtherText"), later: t("files.wayLaterText") };
  return (
    <>
      <EmptyState title={t("files.none")} text={t("files.noneText")} icon={<FolderOpen aria-hidden="true" size={32} />} />
      <div className={styles.card}>
        <Tabs
          label={t("files.waysLabel")}
          tabs={[
            { id: "here", label: t("files.wayHere") },
            { id: "other", label: t("files.wayOther") },
            { id: "later", label: t("files.wayLater") },
          ]}
          selected={way}
          onSelect={setWay}
        >
          <div className="stack">
            <p>{texts[way]}</p>
            {commands[way].map((command) => (
              <Command key={command} text={command} />
            ))}
          </div>
        </Tabs>
      </div>
    </>
  );
}
