import { ChevronLeft, Ellipsis, MessageSquare } from "lucide-react";
import { useState } from "react";
import { call, urlOf } from "@/api/client";
import type { Agent, AgentChanges } from "@/api/types";
import { problemText } from "@/i18n/problemText";
import { agentDrafts, changeDraft, copyOf, discardDraft, hasChanges, withDraft } from "@/state/agentDraft";
import { toast } from "@/state/toasts";
import { Avatar, Button, EmptyState, FormError, IconButton, Menu, type MenuEntry, Tabs, TextArea, TextField } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useAction, useCell, useProject, useProjectState, useT } from "@/ui/hooks";
import { Link, navigate } from "@/ui/router";
import { paths } from "@/ui/routes";
import { PageFrame } from "@/ui/shell";
import { AgentActivity } from "./AgentActivity";
import { AgentMemory } from "./AgentMemory";
import { AgentModel } from "./AgentModel";
import { AgentTools } from "./AgentTools";
import styles from "./Agents.module.css";
import { DeleteAgent } from "./DeleteAgent";
import { LoopPhases } from "./LoopPhases";
import { TryIt } from "./TryIt";

type Part = "persona" | "model" | "tools" | "loop" | "memory" | "activity";

export interface PartProps {
  /** As it would be with the changes that are not saved. */
  agent: Agent;
  change: (change: AgentChanges) => void;
}

/** One agent: all that makes it, changed here and saved at once. */
export function AgentProfile({ id }: { id: number }) {
  const t = useT();
  const { id: projectId, project } = useProjectState();
  const saved = project?.agents.find((agent) => agent.id === id);
  if (saved) return <Profile saved={saved} />;
  return (
    <PageFrame title={t("agents.title")}>
      <EmptyState title={t("agents.gone")}>
        <Link to={paths.agents(projectId)}>{t("agents.all")}</Link>
      </EmptyState>
    </PageFrame>
  );
}

function Profile({ saved }: { saved: Agent }) {
  const t = useT();
  const draft = useCell(agentDrafts)[saved.id];
  const [part, setPart] = useState<Part>("persona");
  const [isTrying, setTrying] = useState(false);
  const agent = withDraft(saved, draft);
  const props: PartProps = { agent, change: (change) => changeDraft(saved, change) };
  const tabs = (["persona", "model", "tools", "loop", "memory", "activity"] as const).map((each) => ({ id: each, label: t(`agents.${each}`) }));
  return (
    <PageFrame
      title={agentLabel(saved.name)}
      heading={<ProfileHeading agent={saved} />}
      actions={<ProfileActions agent={saved} isTrying={isTrying} setTrying={setTrying} />}
      panel={isTrying && <TryIt agent={saved} isUnsaved={hasChanges(draft)} onClose={() => setTrying(false)} />}
    >
      <Tabs label={t("agents.parts")} tabs={tabs} selected={part} onSelect={setPart}>
        <div className={styles.part}>
          {part === "persona" && <Persona {...props} />}
          {part === "model" && <AgentModel {...props} />}
          {part === "tools" && <AgentTools {...props} />}
          {part === "loop" && <LoopPhases {...props} />}
          {part === "memory" && <AgentMemory {...props} />}
          {part === "activity" && <AgentActivity agent={saved} />}
        </div>
      </Tabs>
      {hasChanges(draft) && <SaveBar agent={saved} draft={draft} />}
    </PageFrame>
  );
}

function ProfileHeading({ agent }: { agent: Agent }) {
  const t = useT();
  return (
    <span className={styles.heading}>
      <IconButton label={t("agents.all")} onClick={() => navigate(paths.agents(agent.project_id))}>
        <ChevronLeft aria-hidden="true" size={18} />
      </IconButton>
      <Avatar agent={agent.name} />
      <span className="ellipsis data">{agentLabel(agent.name)}</span>
    </span>
  );
}

function ProfileActions({ agent, isTrying, setTrying }: { agent: Agent; isTrying: boolean; setTrying: (isTrying: boolean) => void }) {
  const t = useT();
  const project = useProject();
  const { project: opened } = useProjectState();
  const [isDeleting, setDeleting] = useState(false);
  const path = { project_id: agent.project_id, agent_id: agent.id };
  const duplicate = async () => {
    try {
      const body = copyOf(agent, (opened?.agents ?? []).map(({ name }) => name));
      const copy = await call("POST /my/projects/{project_id}/agents", { path: { project_id: agent.project_id }, body });
      project.reload("project");
      toast(t("agents.created", { agent: agentLabel(copy.name) }));
      navigate(paths.agents(agent.project_id, copy.id));
    } catch (failure) {
      toast(problemText(failure), { kind: "error" });
    }
  };
  const entries: MenuEntry[] = [
    { label: t("agents.duplicate"), run: () => void duplicate() },
    { label: t("agents.export"), run: () => window.location.assign(urlOf("/my/projects/{project_id}/agents/{agent_id}/export", path)) },
    { kind: "line" },
    { label: t("agents.delete"), isDanger: true, run: () => setDeleting(true) },
  ];
  return (
    <>
      <Button aria-pressed={isTrying} onClick={() => setTrying(!isTrying)}>
        <MessageSquare aria-hidden="true" size={16} />
        <span className="roomy">{t("agents.tryIt")}</span>
      </Button>
      <Menu
        label={t("agents.more")}
        entries={entries}
        align="end"
        trigger={
          <IconButton label={t("agents.more")}>
            <Ellipsis aria-hidden="true" size={18} />
          </IconButton>
        }
      />
      {isDeleting && <DeleteAgent agent={agent} onClose={() => setDeleting(false)} />}
    </>
  );
}

function Persona({ agent, change }: PartProps) {
  const t = useT();
  return (
    <>
      <div className={styles.pair}>
        <TextField label={t("agents.name")} hint={t("agents.nameHint").replaceAll("`", "")} value={agent.name} maxLength={100} autoComplete="off" onChange={(event) => change({ name: event.target.value })} />
        <TextField label={t("agents.role")} hint={t("agents.roleHint")} value={agent.role} maxLength={200} autoComplete="off" onChange={(event) => change({ role: event.target.value })} />
      </div>
      <div className={styles.prompt}>
        <TextArea
          label={t("agents.prompt")}
          hint={`${t("agents.promptHint")} ${t("agents.characters", { count: agent.system_prompt.length })}`}
          value={agent.system_prompt}
          maxLength={100_000}
          onChange={(event) => change({ system_prompt: event.target.value })}
        />
      </div>
    </>
  );
}

/** Stays in sight while something is not saved. */
function SaveBar({ agent, draft }: { agent: Agent; draft: AgentChanges }) {
  const t = useT();
  const project = useProject();
  const { run, isBusy, problem } = useAction(async () => {
    const changed = await call("PATCH /my/projects/{project_id}/agents/{agent_id}", { path: { project_id: agent.project_id, agent_id: agent.id }, body: draft });
    project.state.set((before) => (before.project ? { ...before, project: { ...before.project, agents: before.project.agents.map((each) => (each.id === changed.id ? changed : each)) } } : before));
    discardDraft(agent.id);
    toast(t("agents.saved"));
  });
  return (
    <div className={styles.saveBar}>
      <div className={styles.saveText}>
        <span>{t("agents.unsaved")}</span>
        <FormError text={problem && problemText(problem)} />
      </div>
      <Button onClick={() => discardDraft(agent.id)}>{t("agents.discard")}</Button>
      <Button kind="primary" isBusy={isBusy} onClick={() => void run()}>
        {t("common.save")}
      </Button>
    </div>
  );
}
