import { Wrench } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { problemText } from "@/i18n/problemText";
import { toast } from "@/state/toasts";
import { Button, FormDialog, Menu, type MenuEntry } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useProjectState, useT } from "@/ui/hooks";

/** What helps when something is stuck. */
export function RepairMenu({ onDone }: { onDone: () => void }) {
  const t = useT();
  const { id, project } = useProjectState();
  const [isAsking, setAsking] = useState(false);
  const path = { project_id: id };
  const run = async (action: () => Promise<unknown>, done: string) => {
    try {
      await action();
      toast(done);
      onDone();
    } catch (failure) {
      toast(problemText(failure), { kind: "error" });
    }
  };
  const reload = (agent_id: number, name: string) =>
    void run(() => call("POST /my/projects/{project_id}/agents/{agent_id}/invalidate", { path: { ...path, agent_id } }), t("activity.reloaded", { agent: agentLabel(name) }));
  const entries: MenuEntry[] = [
    ...(project?.agents ?? []).map((agent): MenuEntry => ({ label: t("activity.reloadAgent", { agent: agentLabel(agent.name) }), run: () => reload(agent.id, agent.name) })),
    { kind: "line" },
    { label: t("activity.cleanUp"), run: () => void run(() => call("POST /my/projects/{project_id}/space/cleanup", { path }), t("activity.cleanedUp")) },
    { label: t("activity.restart"), isDanger: true, run: () => setAsking(true) },
  ];
  const restart = async () => {
    await call("POST /my/projects/{project_id}/space/reset", { path });
    toast(t("activity.restarted"));
    onDone();
  };
  return (
    <>
      <Menu
        label={t("activity.repair")}
        align="end"
        entries={entries}
        trigger={
          <Button kind="quiet">
            <Wrench aria-hidden="true" size={16} />
            <span className="roomy">{t("activity.repair")}</span>
          </Button>
        }
      />
      {isAsking && (
        <FormDialog title={t("activity.restartTitle")} submitLabel={t("activity.restartDo")} submitKind="danger" onSubmit={restart} onClose={() => setAsking(false)} isAlert>
          <p>{t("activity.restartText")}</p>
        </FormDialog>
      )}
    </>
  );
}
