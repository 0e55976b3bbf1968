import { call } from "@/api/client";
import type { Agent } from "@/api/types";
import { toast } from "@/state/toasts";
import { FormDialog, Prose, Select, TextArea, textOf } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useT } from "@/ui/hooks";
import type { Shown } from "./memories";

interface AddProps {
  projectId: number;
  agents: readonly Agent[];
  onAdded: (memory: Shown) => void;
  onClose: () => void;
}

export function AddMemory({ projectId, agents, onAdded, onClose }: AddProps) {
  const t = useT();
  const add = async (form: FormData) => {
    const agent = agents.find(({ id }) => String(id) === textOf(form, "agent"));
    if (!agent) return;
    const memory = await call("POST /my/projects/{project_id}/agents/{agent_id}/context", {
      path: { project_id: projectId, agent_id: agent.id },
      body: { content: textOf(form, "content").trim() },
    });
    toast(t("memory.added"));
    onAdded({ ...memory, agent_id: agent.id, agent: agent.name, score: null });
  };
  return (
    <FormDialog title={t("memory.addTitle")} submitLabel={t("memory.add")} onSubmit={add} onClose={onClose}>
      <TextArea label={t("memory.addContent")} hint={<Prose text={t("memory.addHint")} />} name="content" required rows={4} maxLength={100_000} />
      <Select label={t("memory.addFor")} name="agent" options={agents.map(({ id, name }) => ({ value: String(id), label: agentLabel(name) }))} />
    </FormDialog>
  );
}
