import type { ComponentType } from "react";
import type { PageProps } from "@/App";
import { accountState } from "@/state/account";
import { EmptyState, TabLinks } from "@/ui/components";
import { useCell, useT } from "@/ui/hooks";
import { Nodes } from "@/ui/nodes";
import { TABS, paths } from "@/ui/routes";
import { PageFrame } from "@/ui/shell";
import { AuditPart } from "./AuditPart";
import { ModelsPart } from "./ModelsPart";
import { SystemPart } from "./SystemPart";
import { UsagePart } from "./UsagePart";
import { UsersPart } from "./UsersPart";

const PARTS: Record<string, ComponentType> = { models: ModelsPart, users: UsersPart, usage: UsagePart, nodes: Nodes, audit: AuditPart, system: SystemPart };

/** `/manage`: the server, for administrators. */
export default function ManagePage({ route }: PageProps) {
  const t = useT();
  const account = useCell(accountState);
  const isAdmin = account.phase === "signed_in" && account.account.is_admin;
  const tabs = TABS.manage.map((id) => ({ id, label: t(`manage.${id}`), to: paths.manage(id) }));
  const selected = route.id ?? "models";
  const Part = PARTS[selected];
  return (
    <PageFrame title={t("manage.title")}>
      {!isAdmin && <EmptyState title={t("manage.adminsOnly")} />}
      {isAdmin && <TabLinks label={t("manage.title")} tabs={tabs} selected={selected} />}
      {isAdmin && (Part ? <Part /> : <EmptyState title={t("errors.notFound")} />)}
    </PageFrame>
  );
}
