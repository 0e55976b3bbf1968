import { call } from "@/api/client";
import { problemText } from "@/i18n/problemText";
import { asksByRule, withToolRule } from "@/state/projectRules";
import { visible } from "@/state/visible";
import { EmptyState, FormError, LoadFailed, Prose, Skeleton, Table } from "@/ui/components";
import { toolLabel, toolText } from "@/ui/tools";
import { useAction, useProject, useProjectState, useResource, useT } from "@/ui/hooks";

const LISTED = 100;

/** Which tools the agents of the project may use, and which ask first. */
export function ToolsPart() {
  const t = useT();
  const project = useProject();
  const { project: opened } = useProjectState();
  const path = { project_id: project.id };
  const { data, problem, reload } = useResource(`tools ${project.id}`, (signal) => call("GET /my/projects/{project_id}/tools", { path, query: { limit: LISTED } }, { signal }));
  const change = useAction(async (tool: string, rule: { enabled?: boolean; requires_approval?: boolean }) => {
    // Read again: another tab may have changed them.
    const { settings } = await call("GET /my/projects/{project_id}", { path });
    await call("PATCH /my/projects/{project_id}", { path, body: { settings: withToolRule(settings, tool, rule) } });
    project.reload("project");
    reload();
  });
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data || !opened) return <Skeleton lines={8} />;
  if (!data.items.length) return <EmptyState title={t("settings.noTools")} />;
  return (
    <section className="stack" aria-label={t("settings.tools")}>
      <p className="muted">{t("settings.toolsHint")}</p>
      <FormError text={change.problem && problemText(change.problem)} />
      <Table
        caption={t("settings.tools")}
        rows={data.items}
        rowKey={({ name }) => name}
        columns={[
          {
            key: "name",
            title: t("settings.tool"),
            cell: ({ name, description, problem: trouble }) => (
              <>
                <strong>{visible(toolLabel(name))}</strong> <code className="small">{visible(name)}</code>
                <p className="muted small">
                  <Prose text={trouble ?? toolText({ name, description })} />
                </p>
              </>
            ),
          },
          {
            key: "enabled",
            title: t("settings.toolOn"),
            cell: ({ name, enabled }) => (
              <label className="reach">
                <input
                  type="checkbox"
                  checked={enabled}
                  disabled={change.isBusy}
                  aria-label={t("settings.toolOnName", { tool: visible(toolLabel(name)) })}
                  onChange={(event) => void change.run(name, { enabled: event.target.checked })}
                />
              </label>
            ),
          },
          {
            key: "asks",
            title: t("settings.toolAsks"),
            cell: ({ name, requires_approval }) =>
              requires_approval && !asksByRule(opened.settings, name) ? (
                <span className="muted small">{t("settings.toolAlwaysAsks")}</span>
              ) : (
                <label className="reach">
                  <input
                    type="checkbox"
                    checked={requires_approval}
                    disabled={change.isBusy}
                    aria-label={t("settings.toolAsksName", { tool: visible(toolLabel(name)) })}
                    onChange={(event) => void change.run(name, { requires_approval: event.target.checked })}
                  />
                </label>
              ),
          },
        ]}
      />
    </section>
  );
}
