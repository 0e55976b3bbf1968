// The addresses of the page. Real paths: links can be shared, and the server answers index.html for all of them.

export type PageName = "home" | "chat" | "inbox" | "plans" | "files" | "agents" | "memory" | "activity" | "projectSettings" | "settings" | "manage" | "welcome";

export interface Route {
  page: PageName;
  /** Set on pages of a project. */
  projectId: number | null;
  /** What is open on the page: a conversation, an agent, a tab. */
  id: string | null;
}

const PROJECT_PAGES: Record<string, PageName> = {
  c: "chat",
  inbox: "inbox",
  plans: "plans",
  files: "files",
  agents: "agents",
  memory: "memory",
  activity: "activity",
  settings: "projectSettings",
};
const GLOBAL_PAGES: Record<string, PageName> = { inbox: "inbox", settings: "settings", manage: "manage", welcome: "welcome" };
/** The tabs of pages that have an address each; the first is shown without one. */
export const TABS = {
  projectSettings: ["general", "approvals", "tools"],
  settings: ["general", "account", "usage", "shortcuts"],
  manage: ["models", "users", "usage", "nodes", "audit", "system"],
} as const;
/** In the address, instead of a conversation's id. */
export const NEW = "new";

/** Return the page of a path without the base path; null if there is none. */
export function matchRoute(path: string): Route | null {
  const parts = path.split("/").filter(Boolean).map(decode);
  const [first, second, third, fourth, ...rest] = parts;
  if (first === undefined) return { page: "home", projectId: null, id: null };
  if (first === "p") {
    if (second === undefined || !/^\d{1,19}$/.test(second) || rest.length) return null;
    const page = third === undefined ? "chat" : PROJECT_PAGES[third];
    return page ? { page, projectId: Number(second), id: fourth ?? null } : null;
  }
  const page = GLOBAL_PAGES[first];
  return page && third === undefined ? { page, projectId: null, id: second ?? null } : null;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Paths of all pages, without the base path: `<Link to={paths.agents(project, id)}>`. */
export const paths = {
  home: () => "/",
  chat: (project: number, id: string = NEW) => `/p/${project}/c/${encodeURIComponent(id)}`,
  inbox: (project?: number) => (project === undefined ? "/inbox" : `/p/${project}/inbox`),
  plans: (project: number, id?: string) => below(`/p/${project}/plans`, id),
  files: (project: number, tab?: string) => below(`/p/${project}/files`, tab),
  agents: (project: number, id?: number | string) => below(`/p/${project}/agents`, id),
  memory: (project: number, query?: string) => `/p/${project}/memory${query ? `?q=${encodeURIComponent(query)}` : ""}`,
  activity: (project: number, tab?: string) => below(`/p/${project}/activity`, tab),
  projectSettings: (project: number, tab?: string) => below(`/p/${project}/settings`, tab),
  settings: (tab?: string) => below("/settings", tab),
  manage: (tab?: string) => below("/manage", tab),
  welcome: () => "/welcome",
};

function below(path: string, id?: number | string): string {
  return id === undefined ? path : `${path}/${encodeURIComponent(String(id))}`;
}
