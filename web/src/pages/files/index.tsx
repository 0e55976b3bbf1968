import type { PageProps } from "@/App";
import { TabLinks } from "@/ui/components";
import { useT } from "@/ui/hooks";
import { paths } from "@/ui/routes";
import { PageFrame } from "@/ui/shell";
import { AgentFiles } from "./AgentFiles";
import { Changes } from "./Changes";
import { Folder } from "./Folder";
import { Grants } from "./Grants";

/** `/p/:project/files/:tab`: the connected folder, what was changed in it and what is allowed; files of the agents. */
export default function FilesPage({ route }: PageProps) {
  const t = useT();
  const id = route.projectId ?? 0;
  const tabs = [
    { id: "folder", label: t("files.folder"), to: paths.files(id) },
    { id: "changes", label: t("files.changes"), to: paths.files(id, "changes") },
    { id: "grants", label: t("files.grants"), to: paths.files(id, "grants") },
    { id: "agents", label: t("files.workspaces"), to: paths.files(id, "agents") },
  ];
  const selected = tabs.find((tab) => tab.id === route.id)?.id ?? "folder";
  return (
    <PageFrame title={t("files.title")}>
      <TabLinks label={t("files.tabs")} tabs={tabs} selected={selected} />
      {selected === "folder" && <Folder />}
      {selected === "changes" && <Changes projectId={id} />}
      {selected === "grants" && <Grants projectId={id} />}
      {selected === "agents" && <AgentFiles projectId={id} />}
    </PageFrame>
  );
}
