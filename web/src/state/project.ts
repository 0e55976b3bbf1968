// The open project: its agents, its conversations, its folder, what happens in it.

import { call, isAbort } from "@/api/client";
import { LARGEST_PAGE, type Page, firstItems, withPage } from "@/api/paging";
import { Problem } from "@/api/problem";
import { type LineState, follow } from "@/api/stream";
import type { ConnectorState, ProjectEvent, ProjectWithAgents, Session } from "@/api/types";
import { refreshInbox } from "./inbox";
import { type Cell, createCell } from "./store";

const AGENT_CHANGES: ReadonlySet<string> = new Set(["agent_created", "agent_changed", "agent_deleted"]);
const SETTLE_MS = 300; // events of one moment cause one load

export interface ProjectState {
  id: number;
  phase: "loading" | "ready" | "failed";
  problem: Problem | null;
  project: ProjectWithAgents | null;
  /** Most recently used first. */
  sessions: readonly Session[];
  /** How many are loaded, with hidden ones, and how many there are. */
  loadedSessions: number;
  totalSessions: number;
  isLoadingSessions: boolean;
  /** Why the list could not be loaded the last time. */
  sessionsProblem: Problem | null;
  /** Conversations that are being deleted: no list shows them, however often it is loaded. */
  hidden: ReadonlySet<string>;
  connector: ConnectorState | null;
  line: LineState;
  retryAt: number | null;
}

type Part = "project" | "sessions" | "connector";
type LoadPage = (page: { limit: number; offset: number }) => Promise<Page<Session>>;

/** Ids of conversations; null for all. */
type Changed = ReadonlySet<string> | null;

const union = (one: Changed, other: Changed): Changed => (one === null || other === null ? null : new Set([...one, ...other]));
const idOf = (session: Session) => session.session_id;

/** A load that the server refused is shown where it matters, or repeated with the next event. */
function ignoreProblem(failure: unknown): void {
  if (!(failure instanceof Problem) && !isAbort(failure)) throw failure;
}

export class OpenProject {
  readonly state: Cell<ProjectState>;
  private readonly stop = new AbortController();
  private readonly waiting = new Map<Part, ReturnType<typeof setTimeout>>();
  /** The conversations that are loaded, also hidden ones: the beginning of the server's list. */
  private loaded: Page<Session> = { items: [], total: 0 };
  private sessionLoads = 0;
  /** Conversations that have changed since the list was loaded, and since the last load began; null if any may have. */
  private changed: Changed = null;
  private changedSinceLoad: Changed = new Set();
  private readonly listeners = new Set<(event: ProjectEvent) => void>();

  constructor(readonly id: number) {
    this.state = createCell<ProjectState>({
      id,
      phase: "loading",
      problem: null,
      project: null,
      sessions: [],
      loadedSessions: 0,
      totalSessions: 0,
      isLoadingSessions: false,
      sessionsProblem: null,
      hidden: new Set(),
      connector: null,
      line: "connecting",
      retryAt: null,
    });
  }

  async open(): Promise<void> {
    this.change({ phase: "loading", problem: null });
    try {
      await Promise.all([this.load("project"), this.load("sessions")]);
    } catch (failure) {
      if (isAbort(failure) || this.stop.signal.aborted) return;
      if (!(failure instanceof Problem)) throw failure;
      this.change({ phase: "failed", problem: failure });
      return;
    }
    this.change({ phase: "ready" });
    this.reload("connector");
    await follow<ProjectEvent>(`/my/projects/${this.id}/events`, {
      after: null,
      signal: this.stop.signal,
      onItems: (events) => this.hear(events),
      onLine: (line, retryAt) => this.heardLine(line, retryAt),
    });
  }

  close(): void {
    this.stop.abort();
    for (const timer of this.waiting.values()) clearTimeout(timer);
  }

  /** Listen to the project's events; for pages that show alerts, agents or the folder. */
  onEvent(listener: (event: ProjectEvent) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Load a part again soon; several wishes at once are one load. */
  reload(part: Part): void {
    if (part === "sessions") this.changedSinceLoad = null;
    this.loadSoon(part);
  }

  private loadSoon(part: Part): void {
    if (this.waiting.has(part) || this.stop.signal.aborted) return;
    const timer = setTimeout(() => {
      this.waiting.delete(part);
      this.load(part).catch(ignoreProblem);
    }, SETTLE_MS);
    this.waiting.set(part, timer);
  }

  /** Load the next conversations, at the end of the list; while others are on their way, the list asks again after them. */
  loadMoreSessions(): void {
    if (this.state.get().isLoadingSessions || this.stop.signal.aborted) return;
    void this.loadSessions(async (page) => {
      const next = await page({ limit: LARGEST_PAGE, offset: this.loaded.items.length });
      const list = withPage(this.loaded, next, idOf);
      // Nothing new: others have moved to the beginning of the server's list, and no event has told of them.
      return list.items.length > this.loaded.items.length ? list : firstItems(list.items.length + LARGEST_PAGE, page);
    }).catch(ignoreProblem);
  }

  /** Put a conversation that was just made or changed into the list, before the server is asked. */
  putSession(session: Session): void {
    const { items, total } = this.loaded;
    const others = items.filter((other) => idOf(other) !== idOf(session));
    this.showSessions({ items: [session, ...others], total: total + 1 - (items.length - others.length) });
  }

  removeSession(id: string): void {
    const { items, total } = this.loaded;
    const others = items.filter((session) => idOf(session) !== id);
    this.showSessions({ items: others, total: total - (items.length - others.length) });
  }

  /** Show a conversation nowhere, while it waits to be deleted and after. */
  hideSession(id: string): void {
    this.change({ hidden: new Set([...this.state.get().hidden, id]) });
    this.showSessions(this.loaded);
  }

  /** Show a conversation again that was hidden. */
  unhideSession(id: string): void {
    this.change({ hidden: new Set([...this.state.get().hidden].filter((each) => each !== id)) });
    this.showSessions(this.loaded);
    this.reload("sessions");
  }

  private showSessions(list: Page<Session>): void {
    this.loaded = list;
    const { hidden } = this.state.get();
    const sessions = list.items.filter((session) => !hidden.has(idOf(session)));
    this.change({ sessions, loadedSessions: list.items.length, totalSessions: list.total });
  }

  /** Return the name of an agent of the project. */
  agentName(id: number | null): string | null {
    return this.state.get().project?.agents.find((agent) => agent.id === id)?.name ?? null;
  }

  private async load(part: Part): Promise<void> {
    const { signal } = this.stop;
    const path = { project_id: this.id };
    if (part === "project") this.change({ project: await call("GET /my/projects/{project_id}", { path }, { signal }) });
    else if (part === "connector") this.change({ connector: await call("GET /my/projects/{project_id}/connector", { path }, { signal }) });
    else if (await this.loadSessions((page) => this.refreshedSessions(page))) this.changed = new Set();
  }

  /** Load conversations, and show the list that comes of it. Of loads that overlap, the newest counts; return whether this one does. */
  private async loadSessions(load: (page: LoadPage) => Promise<Page<Session>>): Promise<boolean> {
    const { signal } = this.stop;
    const number = ++this.sessionLoads;
    const isNewest = () => number === this.sessionLoads;
    this.change({ isLoadingSessions: true });
    try {
      const list = await load((page) => call("GET /my/chat/sessions", { query: { project_id: this.id, ...page } }, { signal }));
      if (!isNewest()) return false;
      this.showSessions(list);
      this.change({ sessionsProblem: null });
      return true;
    } catch (failure) {
      if (failure instanceof Problem && isNewest()) this.change({ sessionsProblem: failure });
      throw failure;
    } finally {
      if (isNewest()) this.change({ isLoadingSessions: false });
    }
  }

  /** Return the list as it is now: its first page has what was used since; all of it is loaded only if that is not enough. */
  private async refreshedSessions(page: LoadPage): Promise<Page<Session>> {
    const changed = union(this.changed, this.changedSinceLoad); // also what a load that failed or was overtaken has not shown
    this.changed = changed;
    this.changedSinceLoad = new Set();
    const first = await page({ limit: LARGEST_PAGE, offset: 0 });
    const { items } = this.loaded;
    if (items.length <= LARGEST_PAGE) return first;
    const isFirst = new Set(first.items.map(idOf));
    const rest = items.filter((session) => !isFirst.has(idOf(session)));
    // One that has changed and was not used, such as an archived one, may stand anywhere.
    if (changed === null || rest.some((session) => changed.has(idOf(session)))) return firstItems(items.length, page);
    return { items: [...first.items, ...rest], total: first.total };
  }

  private hear(events: ProjectEvent[]): void {
    for (const event of events) {
      const type: string = event.type; // also of events that this page does not know yet
      if (type.startsWith("connector_")) this.reload("connector");
      if (AGENT_CHANGES.has(type)) this.reload("project");
      if (type.startsWith("approval_")) refreshInbox();
      if (type.startsWith("session_") || type.startsWith("approval_")) {
        this.changedSinceLoad = union(this.changedSinceLoad, "session_id" in event ? new Set([event.session_id]) : null);
        this.loadSoon("sessions");
      }
      for (const listener of this.listeners) listener(event);
    }
  }

  private heardLine(line: LineState, retryAt: number | null): void {
    const before = this.state.get();
    if (before.line === line && line !== "lost") return;
    this.change({ line, retryAt });
    if (line === "open") refreshInbox();
    // The stream begins now: what happened while the line was down was not heard.
    if (line === "open" && before.phase === "ready") for (const part of ["project", "sessions", "connector"] as const) this.reload(part);
  }

  private change(change: Partial<ProjectState>): void {
    if (!this.stop.signal.aborted) this.state.set((before) => ({ ...before, ...change }));
  }
}

/** The project that is open, if any. */
export const openProject = createCell<OpenProject | null>(null);

/** Open a project, and close the one before. */
export function showProject(id: number | null): void {
  const before = openProject.get();
  if (before?.id === id) return;
  before?.close();
  const next = id === null ? null : new OpenProject(id);
  openProject.set(next);
  void next?.open();
}
