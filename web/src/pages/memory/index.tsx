import { Brain, Download, Plus, Search, X } from "lucide-react";
import { type SyntheticEvent, useState } from "react";
import { urlOf } from "@/api/client";
import type { Agent } from "@/api/types";
import { tOr } from "@/i18n";
import { Button, EmptyState, IconButton, LoadFailed, Menu, Select, Skeleton } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useProjectState, useResource, useT } from "@/ui/hooks";
import { PageFrame } from "@/ui/shell";
import { AddMemory } from "./AddMemory";
import { Archives } from "./Archives";
import styles from "./Memory.module.css";
import { MemoryRow } from "./MemoryRow";
import { type Shown, filtered, findMemories } from "./memories";

/** `/p/:project/memory`: what the project's agents know. */
export default function MemoryPage() {
  const t = useT();
  const { id: projectId, project } = useProjectState();
  const agents = project?.agents ?? [];
  const [query, setQuery] = useState(() => new URLSearchParams(location.search).get("q")?.trim() ?? "");
  const [isAdding, setAdding] = useState(false);
  const ids = agents.map(({ id }) => id).join();
  const found = useResource(`memories ${projectId} ${ids} ${query}`, (signal) => findMemories(projectId, agents, query, signal));
  const { data, problem, reload, setData } = found;
  return (
    <PageFrame
      title={t("memory.title")}
      actions={
        agents.length > 0 && (
          <>
            <ExportMenu projectId={projectId} agents={agents} />
            <Button kind="primary" onClick={() => setAdding(true)}>
              <Plus aria-hidden="true" size={16} />
              <span className="roomy">{t("memory.add")}</span>
            </Button>
          </>
        )
      }
    >
      <SearchBox query={query} search={setQuery} />
      {problem ? <LoadFailed problem={problem} retry={reload} /> : !data ? <Skeleton lines={8} /> : <Results key={query} query={query} memories={data} setMemories={setData} agents={agents} />}
      <Archives projectId={projectId} />
      {isAdding && (
        <AddMemory
          projectId={projectId}
          agents={agents}
          onClose={() => setAdding(false)}
          onAdded={(memory) => {
            if (query) setQuery("");
            else setData((before) => [memory, ...before]);
          }}
        />
      )}
    </PageFrame>
  );
}

function SearchBox({ query, search }: { query: string; search: (query: string) => void }) {
  const t = useT();
  const [text, setText] = useState(query);
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    search(text.trim());
  };
  const clear = () => {
    setText("");
    search("");
  };
  return (
    <form role="search" className={styles.search} onSubmit={submit}>
      <Search aria-hidden="true" size={18} />
      <input
        type="text"
        aria-label={t("memory.query")}
        placeholder={t("memory.query")}
        title={t("memory.searchHint")}
        maxLength={1000}
        autoComplete="off"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && clear()}
      />
      {(text || query) && (
        <IconButton label={t("memory.clear")} onClick={clear}>
          <X aria-hidden="true" size={16} />
        </IconButton>
      )}
      <Button type="submit">{t("common.search")}</Button>
    </form>
  );
}

interface ResultsProps {
  query: string;
  memories: readonly Shown[];
  setMemories: (change: (before: Shown[]) => Shown[]) => void;
  agents: readonly Agent[];
}

function Results({ query, memories, setMemories, agents }: ResultsProps) {
  const t = useT();
  const [agentId, setAgentId] = useState("");
  const [kind, setKind] = useState("");
  const shown = filtered(memories, agentId, kind);
  const kinds = [...new Set(memories.map(({ type }) => type))];
  if (memories.length === 0 && !query) return <EmptyState icon={<Brain aria-hidden="true" size={32} />} title={t("memory.title")} text={agents.length ? t("memory.empty") : t("memory.noAgents")} />;
  const replace = (changed: Shown) => setMemories((before) => before.map((each) => (each.id === changed.id ? changed : each)));
  return (
    <section aria-labelledby="memories">
      <div className={styles.filters}>
        <h2 id="memories" role="status">
          {query ? t("memory.found", { count: shown.length }) : t("memory.recent")}
        </h2>
        <Select
          label={t("memory.agent")}
          isLabelHidden
          value={agentId}
          onChange={(event) => setAgentId(event.target.value)}
          options={[{ value: "", label: t("memory.allAgents") }, ...agents.map(({ id, name }) => ({ value: String(id), label: agentLabel(name) }))]}
        />
        <Select
          label={t("memory.kind")}
          isLabelHidden
          value={kind}
          onChange={(event) => setKind(event.target.value)}
          options={[{ value: "", label: t("memory.allKinds") }, ...kinds.map((type) => ({ value: type, label: tOr(`memory.kind_${type}`, type) }))]}
        />
      </div>
      {shown.length === 0 ? (
        <EmptyState title={t("memory.nothingFound")} text={t("memory.nothingFoundHint")} />
      ) : (
        <ul role="list" className={styles.list}>
          {shown.map((memory) => (
            <MemoryRow key={memory.id} memory={memory} replace={replace} setMemories={setMemories} />
          ))}
        </ul>
      )}
    </section>
  );
}

function ExportMenu({ projectId, agents }: { projectId: number; agents: readonly Agent[] }) {
  const t = useT();
  // The answer is shown as a page unless a link says that it is a download.
  const save = ({ id, name }: Agent) => {
    const link = document.createElement("a");
    link.href = urlOf("/my/projects/{project_id}/agents/{agent_id}/context/export", { project_id: projectId, agent_id: id });
    link.download = `${name}.jsonl`;
    link.click();
  };
  return (
    <Menu
      label={t("memory.export")}
      align="end"
      entries={agents.map((agent) => ({ label: t("memory.exportOf", { agent: agentLabel(agent.name) }), run: () => save(agent) }))}
      trigger={
        <Button kind="quiet">
          <Download aria-hidden="true" size={16} />
          <span className="roomy">{t("memory.export")}</span>
        </Button>
      }
    />
  );
}
