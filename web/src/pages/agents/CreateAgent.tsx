import { useState } from "react";
import { call } from "@/api/client";
import type { AgentTemplate } from "@/api/types";
import { freeName } from "@/state/agentDraft";
import { toast } from "@/state/toasts";
import { FormDialog, LoadFailed, Skeleton, TextArea, TextField, classes, textOf } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useProject, useProjectState, useResource, useT } from "@/ui/hooks";
import { navigate } from "@/ui/router";
import { paths } from "@/ui/routes";
import styles from "./Agents.module.css";
import { AgentModelField } from "./AgentModelField";

/** A new agent, from a template or from nothing. */
export function CreateAgent({ onClose }: { onClose: () => void }) {
  const t = useT();
  const project = useProject();
  const { project: opened } = useProjectState();
  const taken = (opened?.agents ?? []).map(({ name }) => name);
  const templates = useResource("templates", (signal) => call("GET /my/agent-templates", {}, { signal }));
  const models = useResource("models", (signal) => call("GET /my/models", {}, { signal }));
  const [chosen, setChosen] = useState<AgentTemplate | null>(null);
  const [model, setModel] = useState("");
  const create = async (form: FormData) => {
    const rest = chosen && { tools: chosen.tools, temperature: chosen.temperature, max_tokens: chosen.max_tokens, memory: chosen.memory, loop: chosen.loop };
    const body = { ...rest, name: textOf(form, "name").trim(), role: textOf(form, "role"), system_prompt: textOf(form, "prompt"), ...(model ? { model } : {}) };
    const agent = await call("POST /my/projects/{project_id}/agents", { path: { project_id: project.id }, body });
    project.reload("project");
    toast(t("agents.created", { agent: agentLabel(agent.name) }));
    navigate(paths.agents(project.id, agent.id));
  };
  if (templates.problem) return <LoadFailed problem={templates.problem} retry={templates.reload} />;
  return (
    <FormDialog title={t("agents.new")} submitLabel={t("agents.create")} onSubmit={create} onClose={onClose} isWide>
      {!templates.data || !models.data ? (
        <Skeleton />
      ) : (
        <>
          <fieldset>
            <legend className={styles.legend}>{t("agents.template")}</legend>
            <div className={styles.templates}>
              <TemplateCard title={t("agents.templateBlank")} text="" isChosen={chosen === null} choose={() => setChosen(null)} />
              {templates.data.items.map((template) => (
                <TemplateCard key={template.name} title={agentLabel(template.name)} text={template.description} isChosen={chosen === template} choose={() => setChosen(template)} />
              ))}
            </div>
          </fieldset>
          <div key={chosen?.name ?? ""} className="stack">
            <div className={styles.pair}>
              <TextField label={t("agents.name")} name="name" required maxLength={100} autoComplete="off" defaultValue={chosen ? freeName(chosen.name, taken) : ""} />
              <TextField label={t("agents.role")} name="role" required maxLength={200} autoComplete="off" defaultValue={chosen?.role ?? ""} />
            </div>
            <TextArea label={t("agents.prompt")} hint={t("agents.promptHint")} name="prompt" required rows={6} defaultValue={chosen?.system_prompt ?? ""} />
          </div>
          <AgentModelField models={models.data} model={model || models.data.default_model} onChange={setModel} />
        </>
      )}
    </FormDialog>
  );
}

function TemplateCard({ title, text, isChosen, choose }: { title: string; text: string; isChosen: boolean; choose: () => void }) {
  return (
    <label className={classes(styles.template, isChosen && styles.chosen)}>
      <input type="radio" name="template" className="unseen" checked={isChosen} onChange={choose} />
      <strong>{title}</strong>
      {text && <span className="muted small">{text}</span>}
    </label>
  );
}
