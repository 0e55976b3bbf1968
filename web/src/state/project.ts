// The open project: its agents, its conversations, its folder, what happens in it.

import { call, isAbort } from "@/api/client";
import { LARGEST_PAGE, firstItems } from "@/api/paging";
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
  /** How many the server has told of, and how many there are. */
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

export class OpenProject {
  readonly state: Cell<ProjectState>;
  private readonly stop = new AbortController();
  private readonly waiting = new Map<Part, ReturnType<typeof setTimeout>>();
  private wantedSessions = LARGEST_PAGE;
  private sessionLoads = 0;
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
    if (this.waiting.has(part) || this.stop.signal.aborted) return;
    const timer = setTimeout(() => {
      this.waiting.delete(part);
      this.load(part).catch((failure: unknown) => {
        if (!(failure instanceof Problem) && !isAbort(failure)) throw failure;
      });
    }, SETTLE_MS);
    this.waiting.set(part, timer);
  }

  /** Load further conversations, at the end of the list. */
  loadMoreSessions(): void {
    this.wantedSessions = this.state.get().loadedSessions + LARGEST_PAGE;
    this.reload("sessions");
  }

  /** Put a conversation that was just made or changed into the list, before the server is asked. */
  putSession(session: Session): void {
    const others = this.state.get().sessions.filter(({ session_id }) => session_id !== session.session_id);
    this.change({ sessions: [session, ...others] });
  }

  removeSession(id: string): void {
    this.change({ sessions: this.state.get().sessions.filter(({ session_id }) => session_id !== id) });
  }

  /** Show a conversation nowhere, while it waits to be deleted and after. */
  hideSession(id: string): void {
    this.change({ hidden: new Set([...this.state.get().hidden, id]) });
    this.removeSession(id);
  }

  /** Show a conversation again that was hidden. */
  unhideSession(id: string): void {
    this.change({ hidden: new Set([...this.state.get().hidden].filter((each) => each !== id)) });
    this.reload("sessions");
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
    else await this.loadSessions(signal);
  }

  /** Load all conversations that the list has shown, and more if they are wanted. Of loads that overlap, the newest counts. */
  private async loadSessions(signal: AbortSignal): Promise<void> {
    const number = ++this.sessionLoads;
    const change = (loaded: Partial<ProjectState>) => {
      if (number === this.sessionLoads) this.change(loaded);
    };
    this.change({ isLoadingSessions: true });
    try {
      const { items, total } = await firstItems(this.wantedSessions, (page) =>
        call("GET /my/chat/sessions", { query: { project_id: this.id, ...page } }, { signal }),
      );
      const { hidden } = this.state.get();
      const sessions = items.filter(({ session_id }) => !hidden.has(session_id));
      change({ sessions, loadedSessions: items.length, totalSessions: total, sessionsProblem: null });
    } catch (failure) {
      if (failure instanceof Problem) change({ sessionsProblem: failure });
      throw failure;
    } finally {
      change({ isLoadingSessions: false });
    }
  }

  private hear(events: ProjectEvent[]): void {
    for (const event of events) {
      const type: string = event.type; // also of events that this page does not know yet
      if (type.startsWith("connector_")) this.reload("connector");
      if (AGENT_CHANGES.has(type)) this.reload("project");
      if (type.startsWith("approval_")) refreshInbox();
      if (type.startsWith("session_") || type.startsWith("approval_")) this.reload("sessions");
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
