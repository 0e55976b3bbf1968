import type { ComponentType } from "react";
import type { PageProps } from "@/App";
import { EmptyState, TabLinks } from "@/ui/components";
import { useProject, useT } from "@/ui/hooks";
import { TABS, paths } from "@/ui/routes";
import { PageFrame } from "@/ui/shell";
import { ApprovalsPart } from "./ApprovalsPart";
import { ProjectPart } from "./ProjectPart";
import { ToolsPart } from "./ToolsPart";

const GENERAL = "general";
const PARTS: Record<string, ComponentType> = { [GENERAL]: ProjectPart, approvals: ApprovalsPart, tools: ToolsPart };

/** `/p/:project/settings`: name, approvals and budget, tools, and the end of the project. */
export default function ProjectSettingsPage({ route }: PageProps) {
  const t = useT();
  const { id } = useProject();
  const tabs = TABS.projectSettings.map((tab) => ({ id: tab, label: t(`settings.${tab}`), to: paths.projectSettings(id, tab === GENERAL ? undefined : tab) }));
  const selected = route.id ?? GENERAL;
  const Part = PARTS[selected];
  return (
    <PageFrame title={t("shell.projectSettings")}>
      <TabLinks label={t("shell.projectSettings")} tabs={tabs} selected={selected} />
      {Part ? <Part /> : <EmptyState title={t("errors.notFound")} />}
    </PageFrame>
  );
}
