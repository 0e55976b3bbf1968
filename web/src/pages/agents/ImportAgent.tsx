import { call } from "@/api/client";
import { Problem } from "@/api/problem";
import { toast } from "@/state/toasts";
import { Field, FormDialog, TextField, textOf } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useProject, useT } from "@/ui/hooks";
import { navigate } from "@/ui/router";
import { paths } from "@/ui/routes";

const MAX_BYTES = 1_000_000;

/** Takes an agent from a file that Export made, of this server or another one. */
export function ImportAgent({ onClose }: { onClose: () => void }) {
  const t = useT();
  const project = useProject();
  const take = async (form: FormData) => {
    const file = form.get("file");
    if (!(file instanceof File) || file.size === 0) throw new Problem(t("agents.importNoFile"), "answered", 422, "no_file");
    if (file.size > MAX_BYTES) throw new Problem(t("agents.importTooBig"), "answered", 413, "too_large");
    const name = textOf(form, "name").trim();
    const request = { path: { project_id: project.id }, query: name ? { name } : {}, body: "" };
    const agent = await call("POST /my/projects/{project_id}/agents/import", request, { raw: { content: await file.text(), mediaType: "application/yaml" } });
    project.reload("project");
    toast(t("agents.created", { agent: agentLabel(agent.name) }));
    navigate(paths.agents(project.id, agent.id));
  };
  return (
    <FormDialog title={t("agents.importTitle")} submitLabel={t("agents.create")} onSubmit={take} onClose={onClose}>
      <Field label={t("agents.importFile")}>{(parts) => <input {...parts} type="file" name="file" accept=".yaml,.yml,application/yaml" />}</Field>
      <TextField label={t("agents.importName")} hint={t("agents.importNameHint")} name="name" maxLength={100} autoComplete="off" />
    </FormDialog>
  );
}
