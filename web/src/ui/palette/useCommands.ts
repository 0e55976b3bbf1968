import { call } from "@/api/client";
import { LANGUAGES, type Language, chooseLanguage } from "@/i18n";
import { accountState } from "@/state/account";
import { type Theme, preferences, setPreference } from "@/state/preferences";
import { nextRecipient, openConversation } from "@/state/openConversation";
import { openProject } from "@/state/project";
import { isAddingProvider } from "@/state/providers";
import { createCell } from "@/state/store";
import { agentLabel } from "../agents";
import { useCell, useResource, useT } from "../hooks";
import { navigate } from "../router";
import { TABS, paths } from "../routes";
import type { Command } from "./commands";
import { GO, modSign } from "./keys";

const noProject = createCell(null);

/** All commands of the palette but those of the search. */
export function useCommands(showShortcuts: () => void): Command[] {
  const t = useT();
  const project = useCell(openProject);
  const state = useCell<ReturnType<NonNullable<typeof project>["state"]["get"]> | null>(project?.state ?? noProject);
  const account = useCell(accountState);
  const projects = useResource("projects", (signal) => call("GET /my/projects", { query: { limit: 100 } }, { signal }));
  const isAdmin = account.phase === "signed_in" && account.account.is_admin;
  const mod = modSign();
  const to = (path: string) => () => navigate(path);
  const commands: Command[] = [];
  if (state) {
    const { id, sessions, project: opened } = state;
    commands.push({ id: "new", group: "commands", label: t("palette.newConversation"), keys: [mod, "J"], run: to(paths.chat(id)) });
    for (const [key, { name, to: target }] of Object.entries(GO)) commands.push({ id: `go-${name}`, group: "pages", label: t(`shell.${name}`), keys: ["g", key], run: to(target(id)) });
    for (const { session_id, title } of sessions) commands.push({ id: `session-${session_id}`, group: "conversations", label: title, run: to(paths.chat(id, session_id)) });
    for (const tab of TABS.projectSettings) commands.push({ id: `project-settings-${tab}`, group: "pages", label: t(`settings.${tab}`), hint: t("shell.projectSettings"), run: to(paths.projectSettings(id, tab)) });
    for (const agent of opened?.agents ?? []) {
      commands.push({ id: `ask-${agent.id}`, group: "agents", label: t("palette.ask", { agent: agentLabel(agent.name) }), hint: agent.role, run: () => ask(id, agent.name) });
    }
    for (const agent of opened?.agents ?? []) commands.push({ id: `agent-${agent.id}`, group: "agents", label: agentLabel(agent.name), hint: agent.role, run: to(paths.agents(id, agent.id)) });
  }
  for (const tab of TABS.settings) commands.push({ id: `settings-${tab}`, group: "pages", label: t(`settings.${tab}`), hint: t("shell.settings"), run: to(paths.settings(tab)) });
  if (isAdmin) commands.push(...administration(t));
  for (const { id, name } of projects.data?.items ?? []) if (id !== state?.id) commands.push({ id: `project-${id}`, group: "projects", label: t("palette.projectTo", { name }), run: to(paths.chat(id)) });
  return [...commands, ...appearance(t), { id: "keys", group: "commands", label: t("palette.shortcuts"), keys: ["?"], run: showShortcuts }];
}

/** Make an agent the recipient of the open conversation, or of a new one if none is there to write in. */
function ask(projectId: number, agent: string): void {
  if (openConversation.get()?.progress.get().phase !== "ready") navigate(paths.chat(projectId));
  nextRecipient.set({ projectId, agent });
}

function administration(t: ReturnType<typeof useT>): Command[] {
  const open = (path: string) => () => navigate(path);
  const add = () => {
    navigate(paths.manage("models"));
    isAddingProvider.set(true);
  };
  return [
    { id: "go-manage", group: "pages", label: t("shell.manage"), run: open(paths.manage()) },
    { id: "add-provider", group: "commands", label: t("models.add"), run: add },
    ...TABS.manage.map((tab): Command => ({ id: `manage-${tab}`, group: "pages", label: t(`manage.${tab}`), hint: t("shell.manage"), run: open(paths.manage(tab)) })),
  ];
}

function appearance(t: ReturnType<typeof useT>): Command[] {
  const themes: [Theme, string][] = [
    ["system", t("shell.themeSystem")],
    ["light", t("shell.themeLight")],
    ["dark", t("shell.themeDark")],
  ];
  return [
    { id: "list", group: "commands", label: t("palette.toggleList"), keys: [modSign(), "B"], run: () => setPreference("listOpen", !preferences.get().listOpen) },
    ...themes.map(([theme, name]): Command => ({ id: `theme-${theme}`, group: "commands", label: t("palette.themeTo", { name }), run: () => setPreference("theme", theme) })),
    ...Object.entries(LANGUAGES).map(
      ([language, name]): Command => ({ id: `language-${language}`, group: "commands", label: t("palette.languageTo", { name }), run: () => void chooseLanguage(language as Language) }),
    ),
  ];
}
