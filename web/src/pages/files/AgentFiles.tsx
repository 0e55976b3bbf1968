import { Download, File, Folder as FolderIcon, FolderTree } from "lucide-react";
import { useState } from "react";
import { call, readText, urlOf } from "@/api/client";
import { formatBytes } from "@/i18n/format";
import type { WorkspaceFile } from "@/api/types";
import { visible } from "@/state/visible";
import { agentLabel } from "@/ui/agents";
import { EmptyState, LoadFailed, Select, Skeleton, classes } from "@/ui/components";
import { Visible } from "@/ui/decisions/Visible";
import { useProjectState, useResource, useT } from "@/ui/hooks";
import styles from "./Files.module.css";

const MAX_PREVIEW = 200_000; // bytes
const PAGE = 100;
const FILE = "/my/projects/{project_id}/agents/{agent_id}/workspace/files/{path}";

/** Return the files of an agent, page by page: at most 500. */
async function allFiles(projectId: number, agentId: number, signal: AbortSignal): Promise<WorkspaceFile[]> {
  const files: WorkspaceFile[] = [];
  for (let page = 0; page < 5; page++) {
    const query = { recursive: true, limit: PAGE, offset: page * PAGE };
    const path = { project_id: projectId, agent_id: agentId };
    const { items, total } = await call("GET /my/projects/{project_id}/agents/{agent_id}/workspace/files", { path, query }, { signal });
    files.push(...items);
    if (files.length >= total) break;
  }
  return files;
}

/** Files that agents keep on the server: read only. */
export function AgentFiles({ projectId }: { projectId: number }) {
  const t = useT();
  const { project } = useProjectState();
  const agents = project?.agents ?? [];
  const [agent, setAgent] = useState<number | null>(null);
  const chosen = agent ?? agents[0]?.id ?? null;
  const [opened, setOpened] = useState<WorkspaceFile | null>(null);
  const { data, problem, reload } = useResource(chosen === null ? null : `workspace ${chosen}`, (signal) => allFiles(projectId, chosen ?? 0, signal));
  if (chosen === null) return <EmptyState title={t("files.noAgentFiles")} text={t("files.noAgentFilesText")} />;
  return (
    <div className="stack">
      <Select
        label={t("files.chooseAgent")}
        value={String(chosen)}
        options={agents.map(({ id, name }) => ({ value: String(id), label: visible(agentLabel(name)) }))}
        onChange={(event) => {
          setAgent(Number(event.target.value));
          setOpened(null);
        }}
      />
      {problem && problem.status !== 404 ? (
        <LoadFailed problem={problem} retry={reload} />
      ) : !data && !problem ? (
        <Skeleton />
      ) : !data?.length ? (
        <EmptyState title={t("files.noAgentFiles")} text={t("files.noAgentFilesText")} icon={<FolderTree aria-hidden="true" size={32} />} />
      ) : (
        <div className={styles.columns}>
          <Tree files={data} opened={opened} onOpen={setOpened} />
          {opened && <Preview key={opened.path} projectId={projectId} agentId={chosen} file={opened} />}
        </div>
      )}
    </div>
  );
}

function Tree({ files, opened, onOpen }: { files: readonly WorkspaceFile[]; opened: WorkspaceFile | null; onOpen: (file: WorkspaceFile) => void }) {
  const t = useT();
  const sorted = [...files].sort((one, other) => one.path.localeCompare(other.path));
  return (
    <nav className={styles.tree} aria-label={t("files.workspaces")}>
      {sorted.map((file) => {
        const indent = { paddingInlineStart: `${file.path.split("/").length * 0.75}rem` };
        return file.type === "file" ? (
          <button key={file.path} type="button" className={styles.entry} style={indent} aria-current={opened?.path === file.path || undefined} onClick={() => onOpen(file)}>
            <File aria-hidden="true" size={14} />
            <span className="ellipsis data">{visible(file.name)}</span>
            <span className="muted">{formatBytes(file.size)}</span>
          </button>
        ) : (
          <div key={file.path} className={styles.entry} style={indent}>
            <FolderIcon aria-hidden="true" size={14} />
            <span className="ellipsis data">{visible(file.name)}</span>
          </div>
        );
      })}
    </nav>
  );
}

function Preview({ projectId, agentId, file }: { projectId: number; agentId: number; file: WorkspaceFile }) {
  const t = useT();
  const path = { project_id: projectId, agent_id: agentId, path: file.path };
  const isShown = file.size <= MAX_PREVIEW;
  const { data, isLoading } = useResource(isShown ? `file ${agentId} ${file.path} ${file.modified}` : null, (signal) => readText(urlOf(FILE, path), { signal }));
  return (
    <section className="stack" aria-label={t("files.preview", { path: visible(file.path) })}>
      <div className={styles.head}>
        <span className={classes(styles.path, "data")}>{visible(file.path)}</span>
        <a href={urlOf(FILE, path)} download={file.name}>
          <Download aria-hidden="true" size={14} /> {t("files.download")}
        </a>
      </div>
      {isLoading ? (
        <Skeleton />
      ) : data !== null && !data.includes("\0") && !data.includes("\ufffd") ? (
        <pre className={classes(styles.preview, "data")} tabIndex={0}>
          <Visible text={data} keep={"\n\t\r"} />
        </pre>
      ) : (
        <p className="muted">{t("files.notText")}</p>
      )}
    </section>
  );
}
