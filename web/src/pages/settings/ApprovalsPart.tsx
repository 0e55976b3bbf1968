import { call } from "@/api/client";
import { readApprovals, withApprovals } from "@/state/projectRules";
import { toast } from "@/state/toasts";
import { Form, Skeleton, TextField, textOf } from "@/ui/components";
import { useProject, useProjectState, useT } from "@/ui/hooks";
import styles from "./Settings.module.css";

/** When agents ask, how long they wait, and what the project may spend. */
export function ApprovalsPart() {
  const t = useT();
  const project = useProject();
  const { project: opened } = useProjectState();
  if (!opened) return <Skeleton />;
  const now = readApprovals(opened.settings);
  const save = async (form: FormData) => {
    const number = (name: string) => Number(textOf(form, name));
    const budget = textOf(form, "budget").trim();
    const settings = withApprovals(opened.settings, {
      askOverUsd: number("over"),
      askFromTasks: number("tasks"),
      approvalSeconds: Math.round(number("minutes") * 60),
      monthlyBudgetUsd: budget === "" ? null : Number(budget),
    });
    await call("PATCH /my/projects/{project_id}", { path: { project_id: project.id }, body: { settings } });
    project.reload("project");
    toast(t("settings.saved"));
  };
  return (
    <div className={styles.narrow}>
      <Form key={JSON.stringify(now)} submitLabel={t("common.save")} onSubmit={save}>
        <TextField label={t("settings.askOver")} name="over" type="number" min={0} max={1_000_000} step="any" required defaultValue={now.askOverUsd} />
        <TextField label={t("settings.askTasks")} name="tasks" type="number" min={1} max={21} step={1} required defaultValue={now.askFromTasks} />
        <TextField label={t("settings.approvalMinutes")} name="minutes" type="number" min={0.1} max={10_080} step="any" required defaultValue={now.approvalSeconds / 60} hint={t("settings.approvalMinutesHint")} />
        <TextField label={t("settings.monthlyBudget")} name="budget" type="number" min={0} step="any" defaultValue={now.monthlyBudgetUsd ?? ""} hint={t("settings.monthlyBudgetHint")} />
      </Form>
    </div>
  );
}
