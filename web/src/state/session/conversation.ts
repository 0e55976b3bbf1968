// An open conversation: loads it, follows it, sends to it. Components read `store` and call its methods.

import { call, isAbort, newKey } from "@/api/client";
import { Problem } from "@/api/problem";
import { type LineState, follow } from "@/api/stream";
import type { Attachment, MessageAccepted, PageTimelineItem, SessionChanges, SessionEvent, SessionStreamItem, TurnState, UndoneFile, WorkflowState } from "@/api/types";
import { type Cell, type Store, createCell, createStore } from "../store";
import { redoChanges, undoChanges } from "../undo";
import { isPlanOver } from "./plans";
import { reduceSession } from "./reducer";
import { type Outbox, type Outgoing, outboxOf, wakeOutboxes } from "./outbox";
import { refetchAfter } from "./refetch";
import { type SessionAction, type SessionState, emptySession } from "./types";

const PAGE = 50;
const MOST = 100; // entries of one page
const PAGES_AT_ONCE = 4;
const MAX_OPEN_TURNS = 50;
const ASYNC = { Prefer: "respond-async" };

export interface Progress {
  phase: "loading" | "ready" | "failed";
  problem: Problem | null;
  line: LineState;
  /** When a lost line is tried again. */
  retryAt: number | null;
}

/** A message that the server did not take. */
export interface Refused {
  message: Outgoing;
  problem: Problem;
}

/** An answer or notice that came just now; `number` tells two of the same words apart. */
export interface Announced {
  number: number;
  agentId: number | null;
  content: string;
}

export class Conversation {
  readonly store: Store<SessionState, SessionAction>;
  readonly progress: Cell<Progress>;
  private readonly stop = new AbortController();
  private readonly loads = new Map<string, { isWanted: boolean }>();
  private isLoadingEarlier = false;
  /** A request that may have arrived, or not: sent again, it has the same key. */
  private uncertain: { what: string; key: string } | null = null;
  /** Messages that came back, oldest first; the composer takes them. */
  readonly refused = createCell<readonly Refused[]>([]);
  /** For screen readers: what is complete is told once, and not while it grows. */
  readonly announced = createCell<Announced | null>(null);
  /** Who the last message was sent to, before the server has told it; undefined if none was sent here. */
  lastTarget: string | null | undefined;
  private readonly outbox: Outbox;
  private readonly promises = new Map<string, { resolve: () => void; reject: (problem: Problem) => void }>();

  constructor(readonly id: string) {
    this.store = createStore(reduceSession, emptySession(id));
    this.progress = createCell<Progress>({ phase: "loading", problem: null, line: "connecting", retryAt: null });
    this.outbox = outboxOf(id);
    this.outbox.watch({
      isOpen: () => !this.stop.signal.aborted,
      onAdded: ({ key, content, attachments, at }) => this.store.dispatch({ type: "sending", key, content, attachments, at }),
      onDelayed: ({ key }) => this.store.dispatch({ type: "send_delayed", key }),
      onAccepted: ({ key }, { turn_id }) => {
        this.store.dispatch({ type: "accepted", key, turnId: turn_id });
        this.settle(key, null);
      },
      onRefused: (message, problem) => {
        this.store.dispatch({ type: "send_failed", key: message.key });
        if (!this.settle(message.key, problem)) this.refused.set((before) => [...before, { message, problem }]);
      },
    });
  }

  /** Load the conversation and follow it until `close`. */
  async open(): Promise<void> {
    this.progress.set((before) => ({ ...before, phase: "loading", problem: null }));
    try {
      await this.load();
    } catch (failure) {
      if (isAbort(failure) || this.stop.signal.aborted) return;
      if (!(failure instanceof Problem)) throw failure;
      this.progress.set((before) => ({ ...before, phase: "failed", problem: failure }));
      return;
    }
    this.progress.set((before) => ({ ...before, phase: "ready" }));
    await follow<SessionStreamItem>(`/my/chat/${this.id}/events`, {
      after: this.store.get().lastEvent,
      signal: this.stop.signal,
      onItems: (items) => this.hear(items),
      onLine: (line, retryAt) => this.heardLine(line, retryAt),
      onRefused: (problem) => this.progress.set((before) => ({ ...before, phase: "failed", problem })),
    });
  }

  close(): void {
    this.stop.abort();
  }

  /** Send a message, now or as soon as the server can be reached; one that is refused comes back in `refused`. */
  post(content: string, target: string | null, attachments: readonly Attachment[] = []): Outgoing {
    this.lastTarget = target;
    return this.outbox.add(content, target, attachments);
  }

  /** Send a message and wait until it is accepted; raise Problem if it is refused. */
  send(content: string, target: string | null): Promise<void> {
    const { key } = this.post(content, target);
    return new Promise((resolve, reject) => this.promises.set(key, { resolve, reject }));
  }

  private settle(key: string, problem: Problem | null): boolean {
    const promise = this.promises.get(key);
    this.promises.delete(key);
    if (problem) promise?.reject(problem);
    else promise?.resolve();
    return promise !== undefined;
  }

  /** Send a message again, as it was or changed. */
  async retry(turnId: string, change: { content?: string; target_agent?: string | null } = {}): Promise<void> {
    const what = `retry ${turnId} ${JSON.stringify(change)}`;
    const key = this.keyOf(what);
    await this.once(what, key, () =>
      call("POST /my/chat/{session_id}/turns/{turn_id}/retry", { path: { session_id: this.id, turn_id: turnId }, body: change }, { headers: { ...ASYNC, "Idempotency-Key": key } }),
    );
  }

  /** Go on with an answer that was cut off. */
  async continueAnswer(turnId: string): Promise<void> {
    const what = `continue ${turnId}`;
    const key = this.keyOf(what);
    await this.once(what, key, () =>
      call("POST /my/chat/{session_id}/turns/{turn_id}/continue", { path: { session_id: this.id, turn_id: turnId } }, { headers: { ...ASYNC, "Idempotency-Key": key } }),
    );
  }

  /** Change a message that waits for its turn. */
  async changeQueued(turnId: string, content: string): Promise<void> {
    await call("PATCH /my/chat/{session_id}/turns/{turn_id}", { path: { session_id: this.id, turn_id: turnId }, body: { content } });
  }

  async rate(messageId: string, rating: "good" | "bad", comment = ""): Promise<void> {
    const message = await call("POST /my/chat/{session_id}/messages/{message_id}/feedback", {
      path: { session_id: this.id, message_id: messageId },
      body: { rating, comment },
    });
    this.store.dispatch({ type: "message_replaced", message });
  }

  /** Put back what a turn has changed, or one file of it; return what became of each file. */
  async undo(turnId: string, path: string | null, ifMatch?: string): Promise<readonly UndoneFile[]> {
    try {
      return await undoChanges({ projectId: this.projectId, turnId, path }, ifMatch);
    } finally {
      this.refresh(); // also if files were changed since: the timeline tells
    }
  }

  /** Change again what was put back. */
  async redo(turnId: string, path: string | null): Promise<readonly UndoneFile[]> {
    try {
      return await redoChanges({ projectId: this.projectId, turnId, path });
    } finally {
      this.refresh();
    }
  }

  get projectId(): number {
    return this.store.get().session?.project_id ?? 0;
  }

  /** Change title, pin, archive or recipient of the conversation. */
  async change(changes: SessionChanges): Promise<void> {
    const session = await call("PATCH /my/chat/sessions/{session_id}", { path: { session_id: this.id }, body: changes });
    this.store.dispatch({ type: "session_loaded", session });
  }

  /** Return the key of a request: a new one, unless it is not known whether the same request has arrived before. */
  private keyOf(what: string): string {
    return this.uncertain?.what === what ? this.uncertain.key : newKey();
  }

  private async once(what: string, key: string, request: () => Promise<unknown>): Promise<MessageAccepted> {
    try {
      const answer = (await request()) as MessageAccepted;
      this.uncertain = null;
      return answer;
    } catch (failure) {
      this.uncertain = failure instanceof Problem && failure.isUncertain ? { what, key } : null;
      throw failure;
    }
  }

  /** Stop the turn that runs, or the first that waits. */
  async cancel(turnId?: string): Promise<void> {
    const turns = Object.values(this.store.get().turns);
    const id = turnId ?? (turns.find(({ status }) => status !== "queued") ?? turns[0])?.id;
    if (id) await call("POST /my/chat/{session_id}/turns/{turn_id}/cancel", { path: { session_id: this.id, turn_id: id } });
  }

  /** Load the entries before the oldest one that is there. */
  async loadEarlier(): Promise<void> {
    const { firstOffset, lastEvent } = this.store.get();
    if (firstOffset === 0 || this.isLoadingEarlier) return;
    this.isLoadingEarlier = true;
    try {
      const offset = Math.max(0, firstOffset - PAGE);
      const page = await this.timeline({ limit: firstOffset - offset, offset });
      this.store.dispatch({ type: "timeline_loaded", page, asOf: lastEvent });
      await this.loadPlans(page);
    } finally {
      this.isLoadingEarlier = false;
    }
  }

  /** Load all entries from one of them to the newest; return whether it is there. */
  async loadBackTo(id: string): Promise<boolean> {
    while (!(id in this.store.get().items) && this.store.get().firstOffset > 0) {
      const { firstOffset, lastEvent } = this.store.get();
      const offsets = Array.from({ length: PAGES_AT_ONCE }, (_, place) => firstOffset - (place + 1) * MOST).filter((offset) => offset > -MOST);
      const pages = await Promise.all(offsets.map((offset) => this.timeline({ limit: Math.min(MOST, offset + MOST), offset: Math.max(0, offset) })));
      this.store.dispatch(...pages.map((page) => ({ type: "timeline_loaded", page, asOf: lastEvent }) as const));
      for (const page of pages) await this.loadPlans(page);
    }
    return id in this.store.get().items;
  }

  /** Load what is on record again, after something that no event tells, such as an undo. */
  refresh(): void {
    this.refetch("timeline");
  }

  /** Load title, state and cost again. */
  refreshSession(): void {
    this.refetch("session");
  }

  private async load(): Promise<void> {
    const { signal } = this.stop;
    const path = { session_id: this.id };
    // The number of the newest event first: what happens while the rest is loaded comes again as an event.
    const { last_event: lastEvent, ...session } = await call("GET /my/chat/sessions/{session_id}", { path }, { signal });
    const [timeline, turns, approvals] = await Promise.all([
      this.timeline({ last: PAGE }),
      this.openTurns(),
      call("GET /my/approvals", { query: { status: "pending", session_id: this.id, limit: 100 } }, { signal }),
    ]);
    const plans = await this.plansOf(timeline);
    this.store.dispatch({ type: "loaded", snapshot: { session, lastEvent, timeline, turns, approvals: approvals.items, plans } });
  }

  private timeline(query: { last: number } | { limit: number; offset: number }): Promise<PageTimelineItem> {
    return call("GET /my/chat/{session_id}/timeline", { path: { session_id: this.id }, query }, { signal: this.stop.signal });
  }

  private async openTurns(): Promise<TurnState[]> {
    const query = { status: "queued,running,waiting", limit: MAX_OPEN_TURNS };
    return (await call("GET /my/chat/{session_id}/turns", { path: { session_id: this.id }, query }, { signal: this.stop.signal })).items;
  }

  /** Return the plans of a page that are not over: of the others their entry tells enough. */
  private plansOf({ items }: PageTimelineItem): Promise<WorkflowState[]> {
    const ids = items.flatMap(({ plan }) => (plan && !isPlanOver(plan) ? [plan.workflow_id] : []));
    return Promise.all(ids.map((id) => this.plan(id)));
  }

  private plan(id: string): Promise<WorkflowState> {
    return call("GET /my/workflows/{workflow_id}", { path: { workflow_id: id } }, { signal: this.stop.signal });
  }

  private async loadPlans(page: PageTimelineItem): Promise<void> {
    const asOf = this.store.get().lastEvent;
    for (const plan of await this.plansOf(page)) this.store.dispatch({ type: "plan_loaded", plan, asOf });
  }

  /** Load a whole plan, for a view of a plan that is over. */
  loadPlan(id: string): void {
    this.refetch(`plan:${id}`);
  }

  private heardLine(line: LineState, retryAt: number | null): void {
    this.progress.set((before) => (before.line === line && line !== "lost" ? before : { ...before, line, retryAt }));
    if (line === "open") wakeOutboxes();
  }

  private hear(items: SessionStreamItem[]): void {
    const { lastEvent } = this.store.get();
    this.store.dispatch(...items);
    const events = items.filter((item): item is SessionEvent => "number" in item);
    if (!events.length) return;
    for (const event of events) {
      if (event.type !== "message_completed" || event.number <= lastEvent) continue;
      this.announced.set({ number: event.number, agentId: event.role === "system" ? null : event.agent_id, content: event.content });
    }
    const { timeline, approvals, session, plans } = refetchAfter(this.store.get(), events);
    if (timeline) this.refetch("timeline");
    if (approvals) this.refetch("approvals");
    if (session) this.refetch("session");
    for (const id of plans) this.refetch(`plan:${id}`);
  }

  /** Load something now, once more if it is wanted again meanwhile; what fails is loaded with the next event. */
  private refetch(what: string): void {
    const running = this.loads.get(what);
    if (running) {
      running.isWanted = true;
      return;
    }
    const load = { isWanted: true };
    this.loads.set(what, load);
    void (async () => {
      try {
        while (load.isWanted && !this.stop.signal.aborted) {
          load.isWanted = false;
          await this.loadPart(what);
        }
      } catch (failure) {
        if (!(failure instanceof Problem) && !isAbort(failure)) throw failure;
      } finally {
        this.loads.delete(what);
      }
    })();
  }

  private async loadPart(what: string): Promise<void> {
    const { signal } = this.stop;
    const asOf = this.store.get().lastEvent;
    if (what === "timeline") {
      this.store.dispatch({ type: "timeline_loaded", page: await this.timeline({ last: PAGE }), asOf });
    } else if (what === "approvals") {
      const { items } = await call("GET /my/approvals", { query: { status: "pending", session_id: this.id, limit: 100 } }, { signal });
      this.store.dispatch({ type: "approvals_loaded", items, asOf });
    } else if (what === "session") {
      const session = await call("GET /my/chat/sessions/{session_id}", { path: { session_id: this.id } }, { signal });
      this.store.dispatch({ type: "session_loaded", session });
    } else {
      const id = what.slice("plan:".length);
      this.store.dispatch({ type: "plan_loaded", plan: await this.plan(id), asOf });
      // What happened meanwhile made it old: it was not taken.
      if ((this.store.get().touched[id] ?? 0) > asOf) this.refetch(what);
    }
  }
}
