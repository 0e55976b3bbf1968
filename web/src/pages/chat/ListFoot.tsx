import { Cpu, Folder, FolderX } from "lucide-react";
import { call } from "@/api/client";
import { tOr } from "@/i18n";
import { formatMoney } from "@/i18n/format";
import type { OpenProject } from "@/state/project";
import { visible } from "@/state/visible";
import { classes } from "@/ui/components";
import { useCell, useResource, useT } from "@/ui/hooks";
import { Link } from "@/ui/router";
import { paths } from "@/ui/routes";
import styles from "./ConversationList.module.css";

const MODES: Readonly<Record<string, string>> = { browser: "folderBrowser", terminal: "folderTerminal", both: "folderBoth", yes: "folderYes", "read-only": "folderReadOnly" };

/** The connected folder, and the model with what was spent. */
export function ListFoot({ project }: { project: OpenProject }) {
  return (
    <div className={styles.foot}>
      <FolderChip project={project} />
      <BudgetChip project={project} />
    </div>
  );
}

function FolderChip({ project }: { project: OpenProject }) {
  const t = useT();
  const { connector } = useCell(project.state);
  const name = visible(connector?.workspace_name ?? "");
  const isOnline = connector?.online ?? false;
  const mode = connector?.read_only ? "read-only" : (connector?.mode ?? "");
  return (
    <Link to={paths.files(project.id)} className={classes(styles.chip, !isOnline && name !== "" && styles.lost)}>
      {isOnline ? <Folder aria-hidden="true" size={15} /> : <FolderX aria-hidden="true" size={15} />}
      <span className="ellipsis data">{isOnline ? `${name} · ${tOr(`chat.${MODES[mode] ?? ""}`, mode)}` : name ? t("chat.folderLost", { name }) : t("chat.noFolder")}</span>
    </Link>
  );
}

function BudgetChip({ project }: { project: OpenProject }) {
  const t = useT();
  const { sessions } = useCell(project.state);
  const models = useResource("models", () => call("GET /my/models")).data;
  // What was spent changes with the conversations. Short requests: they are not given up, their late answer is ignored.
  const { data } = useResource(`month ${project.id} ${sessions[0]?.updated_at ?? ""}`, () =>
    call("GET /my/projects/{project_id}/activity", { path: { project_id: project.id }, query: { range: "30d" } }),
  );
  if (!models) return null;
  const { spent_usd: spent = 0, limit_usd: limit = null } = data?.month ?? {};
  return (
    <Link to={paths.activity(project.id)} className={styles.chip} title={t("chat.thisMonth")}>
      <Cpu aria-hidden="true" size={15} />
      <span className="ellipsis data">{models.demo ? t("chat.demoModel") : models.default_model}</span>
      {data && !models.demo && <span className={styles.end}>{limit === null ? formatMoney(spent) : t("chat.spentOf", { spent: formatMoney(spent), limit: formatMoney(limit) })}</span>}
    </Link>
  );
}
