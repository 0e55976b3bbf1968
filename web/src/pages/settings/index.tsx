import type { ComponentType } from "react";
import type { PageProps } from "@/App";
import { EmptyState, TabLinks } from "@/ui/components";
import { useT } from "@/ui/hooks";
import { TABS, paths } from "@/ui/routes";
import { PageFrame } from "@/ui/shell";
import { AccountPart } from "./AccountPart";
import { GeneralPart } from "./GeneralPart";
import { ShortcutsPart } from "./ShortcutsPart";
import { UsagePart } from "./UsagePart";

const GENERAL = "general";
const PARTS: Record<string, ComponentType> = { [GENERAL]: GeneralPart, account: AccountPart, usage: UsagePart, shortcuts: ShortcutsPart };

/** `/settings`: how the page looks and behaves, the account, what was used, and the keys. */
export default function SettingsPage({ route }: PageProps) {
  const t = useT();
  const tabs = TABS.settings.map((id) => ({ id, label: t(`settings.${id}`), to: paths.settings(id === GENERAL ? undefined : id) }));
  const selected = route.id ?? GENERAL;
  const Part = PARTS[selected];
  return (
    <PageFrame title={t("settings.title")}>
      <TabLinks label={t("settings.title")} tabs={tabs} selected={selected} />
      {Part ? <Part /> : <EmptyState title={t("errors.notFound")} />}
    </PageFrame>
  );
}
