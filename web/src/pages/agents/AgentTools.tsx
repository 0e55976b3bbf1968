import { call } from "@/api/client";
import { visible } from "@/state/visible";
import { LoadFailed, Prose, Skeleton, Switch, classes } from "@/ui/components";
import { useResource, useT } from "@/ui/hooks";
import { Link } from "@/ui/router";
import { paths } from "@/ui/routes";
import { toolLabel, toolText } from "@/ui/tools";
import type { PartProps } from "./AgentProfile";
import styles from "./Agents.module.css";
import { type ListedTool, listTools } from "./toolGroups";

export function AgentTools({ agent, change }: PartProps) {
  const t = useT();
  const path = { project_id: agent.project_id };
  const { data, problem, reload } = useResource(`tools ${agent.project_id}`, (signal) => call("GET /my/projects/{project_id}/tools", { path, query: { limit: 100 } }, { signal }));
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton />;
  const turn = (name: string, isOn: boolean) => change({ tools: isOn ? [...agent.tools, name] : agent.tools.filter((each) => each !== name) });
  return (
    <>
      <p className="muted">
        {t("agents.toolsHint")} <Link to={paths.projectSettings(agent.project_id)}>{t("agents.toolSettings")}</Link>
      </p>
      {listTools(data.items, agent.tools).map(([group, tools]) => (
        <fieldset key={group} className={styles.group}>
          <legend className={styles.legend}>{t(`agents.group_${group}`)}</legend>
          {tools.map((listed) => (
            <ToolSwitch key={listed.name} listed={listed} turn={(isOn) => turn(listed.name, isOn)} />
          ))}
        </fieldset>
      ))}
    </>
  );
}

function ToolSwitch({ listed: { name, tool, isOn }, turn }: { listed: ListedTool; turn: (isOn: boolean) => void }) {
  const t = useT();
  const isOff = tool !== null && !tool.enabled;
  const trouble = tool === null ? t("agents.toolMissingHint") : (tool.problem ?? (isOff ? t("agents.toolOff") : null));
  return (
    <div className={classes(styles.tool, (tool === null || isOff) && styles.absent)}>
      <Switch
        label={visible(toolLabel(name))}
        checked={isOn}
        onChange={(event) => turn(event.target.checked)}
        hint={
          <>
            {tool && <Prose text={toolText(tool)} />}
            {trouble && <span className={styles.trouble}> <Prose text={trouble} /></span>}
          </>
        }
      />
      {tool === null && <span className={classes(styles.mark, styles.bad)}>{t("agents.toolMissing")}</span>}
      {tool?.requires_approval && <span className={styles.mark}>{t("agents.asksFirst")}</span>}
    </div>
  );
}
