import { Activity, Bot, Brain, CircleUser, FolderOpen, Inbox, ListTree, Settings, Shield, SunMoon } from "lucide-react";
import type { ComponentType, ReactNode } from "react";
import { LANGUAGES, type Language, chooseLanguage } from "@/i18n";
import { problemText } from "@/i18n/problemText";
import { accountName, accountState, signOut } from "@/state/account";
import { inbox } from "@/state/inbox";
import { type Theme, preferences, setPreference } from "@/state/preferences";
import { openProject } from "@/state/project";
import { toast } from "@/state/toasts";
import { Menu, type MenuEntry, Tooltip, classes } from "../components";
import { useCell, useMedia, useT } from "../hooks";
import { Link, hrefOf, navigate, useRoute } from "../router";
import { type PageName, paths } from "../routes";
import { CountBadge } from "./CountBadge";
import styles from "./Rail.module.css";

type Icon = ComponentType<{ size?: number; "aria-hidden"?: "true" }>;

function Logo() {
  return <img src={hrefOf("/assets/icon.svg")} alt="" width={20} height={20} />;
}

export function Rail({ className }: { className: string | undefined }) {
  const t = useT();
  return (
    <nav className={classes(styles.rail, className)} aria-label={t("shell.pages")}>
      <RailLinks />
    </nav>
  );
}

/** The links of the rail; with labels in the drawer of a phone. */
export function RailLinks({ isLabelled = false }: { isLabelled?: boolean }) {
  const t = useT();
  const { lastProject } = useCell(preferences);
  const project = useCell(openProject)?.id ?? lastProject; // the pages of all projects lead back to the last one
  const { total } = useCell(inbox);
  const account = useCell(accountState);
  const inboxLabel = total ? t("shell.inboxCount", { count: total }) : t("shell.inbox");
  const isAdmin = account.phase === "signed_in" && account.account.is_admin;
  return (
    <>
      <div className={classes(styles.links, isLabelled && styles.labelled)}>
        <RailLink page="chat" icon={Logo} label={t("shell.chat")} to={project === null ? paths.home() : paths.chat(project)} />
        <RailLink page="inbox" icon={Inbox} label={t("shell.inbox")} name={inboxLabel} to={paths.inbox()} badge={total} />
        {project !== null && (
          <>
            <RailLink page="plans" icon={ListTree} label={t("shell.plans")} to={paths.plans(project)} />
            <RailLink page="files" icon={FolderOpen} label={t("shell.files")} to={paths.files(project)} />
            <RailLink page="agents" icon={Bot} label={t("shell.agents")} to={paths.agents(project)} />
            <RailLink page="memory" icon={Brain} label={t("shell.memory")} to={paths.memory(project)} />
            <RailLink page="activity" icon={Activity} label={t("shell.activity")} to={paths.activity(project)} />
            <RailLink page="projectSettings" icon={Settings} label={t("shell.projectSettings")} to={paths.projectSettings(project)} />
          </>
        )}
        {isAdmin && <RailLink page="manage" icon={Shield} label={t("shell.manage")} to={paths.manage()} />}
      </div>
      <div className={classes(styles.links, isLabelled && styles.labelled)}>
        <ThemeMenu />
        <AccountMenu />
      </div>
    </>
  );
}

interface RailLinkProps {
  page: PageName;
  icon: Icon;
  label: string;
  /** For screen readers, if it says more than the label. */
  name?: string;
  to: string;
  badge?: number;
}

function RailLink({ page, icon: Sign, label, name, to, badge = 0 }: RailLinkProps) {
  const route = useRoute();
  const isCurrent = route?.page === page || (page === "chat" && route?.page === "home");
  return (
    <Hint text={label}>
      <Link to={to} className={styles.link} aria-current={isCurrent ? "page" : undefined} aria-label={name ?? label}>
        <Sign size={20} aria-hidden="true" />
        <span className={styles.label}>{label}</span>
        <CountBadge count={badge} />
      </Link>
    </Hint>
  );
}

/** A tooltip where the labels are not shown. */
function Hint({ text, children }: { text: string; children: ReactNode }) {
  const isWide = useMedia("(min-width: 100rem)");
  return isWide ? children : <Tooltip text={text}>{children}</Tooltip>;
}

function ThemeMenu() {
  const t = useT();
  const { theme, language } = useCell(preferences);
  const themes: [Theme, string][] = [
    ["system", t("shell.themeSystem")],
    ["light", t("shell.themeLight")],
    ["dark", t("shell.themeDark")],
  ];
  const entries: MenuEntry[] = [
    { kind: "heading", label: t("shell.theme") },
    ...themes.map(([value, label]): MenuEntry => ({ label, isChecked: theme === value, run: () => setPreference("theme", value) })),
    { kind: "line" },
    { kind: "heading", label: t("shell.language") },
    { label: t("shell.languageSystem"), isChecked: language === null, run: () => void chooseLanguage(null) },
    ...Object.entries(LANGUAGES).map(([value, label]): MenuEntry => ({ label, isChecked: language === value, run: () => void chooseLanguage(value as Language) })),
  ];
  return (
    <Menu
      label={t("shell.theme")}
      entries={entries}
      trigger={
        <button type="button" className={styles.link} aria-label={t("shell.theme")}>
          <SunMoon size={20} aria-hidden="true" />
          <span className={styles.label}>{t("shell.theme")}</span>
        </button>
      }
    />
  );
}

function AccountMenu() {
  const t = useT();
  const state = useCell(accountState);
  const who = state.phase === "signed_in" ? accountName(state.account) : "";
  const entries: MenuEntry[] = [
    { kind: "heading", label: who },
    { label: t("shell.settings"), run: () => navigate(paths.settings()) },
    { label: t("shell.apiDocs"), run: () => window.open(hrefOf("/docs"), "_blank", "noopener") },
    { kind: "line" },
    { label: t("shell.signOut"), run: () => void signOut().catch((failure: unknown) => toast(problemText(failure), { kind: "error" })) },
  ];
  return (
    <Menu
      label={t("shell.account")}
      entries={entries}
      trigger={
        <button type="button" className={styles.link} aria-label={t("shell.account")}>
          <CircleUser size={20} aria-hidden="true" />
          <span className={styles.label}>{t("shell.account")}</span>
        </button>
      }
    />
  );
}
