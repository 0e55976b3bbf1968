import { useState } from "react";
import { call } from "@/api/client";
import { formatDate } from "@/i18n/format";
import { EmptyState, LoadFailed, Select, Skeleton } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useResource, useT } from "@/ui/hooks";
import { DayChart, UsageFigures, UsageTable } from "@/ui/usage";

const RANGES = [7, 30, 90];
const DAY_MS = 86_400_000;
const LISTED = 100;

/** What the user's agents used: by day, project, agent and model. */
export function UsagePart() {
  const t = useT();
  const [days, setDays] = useState(30);
  const { data, problem, reload } = useResource(`usage${days}`, (signal) => loadUsage(days, signal));
  const ranges = RANGES.map((count) => ({ value: String(count), label: t("manage.days", { count }) }));
  return (
    <>
      <div className="brief">
        <Select label={t("manage.range")} options={ranges} value={String(days)} onChange={(event) => setDays(Number(event.target.value))} />
      </div>
      {problem && <LoadFailed problem={problem} retry={reload} />}
      {!data && !problem && <Skeleton lines={8} />}
      {data?.day.sum.calls === 0 && <EmptyState title={t("usage.empty")} text={t("usage.emptyHint")} />}
      {data && data.day.sum.calls > 0 && <Report {...data} />}
    </>
  );
}

async function loadUsage(days: number, signal: AbortSignal) {
  const from = new Date(Date.now() - (days - 1) * DAY_MS).toISOString().slice(0, 10);
  const report = (group: string) => call("GET /my/usage", { query: { group, from, limit: LISTED } }, { signal });
  const [day, project, agent, model, projects] = await Promise.all([
    report("day"),
    report("project"),
    report("project,agent"),
    report("model"),
    call("GET /my/projects", { query: { limit: LISTED } }, { signal }),
  ]);
  return { day, project, agent, model, names: new Map(projects.items.map(({ id, name }) => [id, name])) };
}

function Report({ day, project, agent, model, names }: Awaited<ReturnType<typeof loadUsage>>) {
  const t = useT();
  const projectName = (id: number | null | undefined) => names.get(id ?? 0) ?? t("usage.deletedProject");
  const costs = new Map(day.items.map((row) => [row.day ?? "", row.cost_usd]));
  return (
    <>
      <UsageFigures sum={day.sum} />
      <DayChart first={day.first_day} last={day.last_day} costs={costs} />
      <UsageTable title={t("usage.byProject")} of={t("shell.project")} rows={project.items} rowKey={({ project_id }) => project_id ?? 0} name={({ project_id }) => projectName(project_id)} />
      <UsageTable
        title={t("usage.byAgent")}
        of={t("usage.agent")}
        rows={agent.items}
        rowKey={(row) => `${row.project_id ?? ""}.${row.agent_id ?? ""}.${row.agent ?? ""}`}
        name={(row) => `${row.agent ? agentLabel(row.agent) : t("usage.planning")} · ${projectName(row.project_id)}`}
      />
      <UsageTable title={t("usage.byModel")} of={t("models.model")} rows={model.items} rowKey={(row) => row.model ?? ""} name={(row) => row.model} />
      <UsageTable
        title={t("usage.byDay")}
        of={t("usage.day")}
        rows={[...day.items].sort((one, other) => (other.day ?? "").localeCompare(one.day ?? ""))}
        rowKey={(row) => row.day ?? ""}
        name={(row) => formatDate(`${row.day ?? ""}T12:00`)}
      />
    </>
  );
}
