import { call } from "@/api/client";
import type { Agent } from "@/api/types";
import { discardDraft } from "@/state/agentDraft";
import { toast } from "@/state/toasts";
import { FormDialog, Switch } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useProject, useT } from "@/ui/hooks";
import { navigate } from "@/ui/router";
import { paths } from "@/ui/routes";

/** Asks whether the memory of a deleted agent is kept: that can't be decided afterwards. */
export function DeleteAgent({ agent, onClose }: { agent: Agent; onClose: () => void }) {
  const t = useT();
  const project = useProject();
  const label = agentLabel(agent.name);
  const remove = async (form: FormData) => {
    const path = { project_id: agent.project_id, agent_id: agent.id };
    await call("DELETE /my/projects/{project_id}/agents/{agent_id}", { path, query: { archive: form.get("archive") !== null } });
    discardDraft(agent.id);
    // At once: the list would ask for the state of an agent that is gone.
    project.state.set((before) => (before.project ? { ...before, project: { ...before.project, agents: before.project.agents.filter(({ id }) => id !== agent.id) } } : before));
    navigate(paths.agents(agent.project_id));
    project.reload("project");
    toast(t("agents.deleted", { agent: label }));
  };
  return (
    <FormDialog title={t("agents.deleteTitle", { agent: label })} submitLabel={t("common.delete")} submitKind="danger" onSubmit={remove} onClose={onClose} isAlert>
      <p>{t("agents.deleteText")}</p>
      <Switch label={t("agents.archive")} hint={t("agents.archiveHint")} name="archive" defaultChecked />
    </FormDialog>
  );
}
