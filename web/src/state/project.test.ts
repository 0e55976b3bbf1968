import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Session } from "@/api/types";
import { OpenProject } from "./project";

const json = (status: number, body: unknown) => new Response(JSON.stringify(body), { status });
const session = (id: string) => ({ session_id: id });
const flush = () => vi.advanceTimersByTimeAsync(1_000);
let lists: ((response: Response) => void)[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  lists = [];
  vi.stubGlobal("location", { origin: "http://localhost" });
  vi.stubGlobal("fetch", () => new Promise<Response>((resolve) => lists.push(resolve)));
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a conversation list that could not be loaded says why until it is loaded", async () => {
  const project = new OpenProject(1);
  project.loadMoreSessions();
  await flush();
  lists[0]?.(json(503, { detail: "The server is busy.", code: "server_busy" }));
  await flush();
  expect(project.state.get().sessionsProblem?.code).toBe("server_busy");
  expect(project.state.get().isLoadingSessions).toBe(false);
  project.loadMoreSessions();
  await flush();
  lists[1]?.(json(200, { items: [session("a")], total: 1 }));
  await flush();
  expect(project.state.get()).toMatchObject({ sessionsProblem: null, loadedSessions: 1 });
});

test("of two loads of the list that overlap, the newest counts, whichever ends first", async () => {
  const project = new OpenProject(1);
  project.reload("sessions");
  await flush();
  project.reload("sessions");
  await flush();
  lists[0]?.(json(200, { items: [session("old")], total: 1 }));
  await flush();
  expect(project.state.get()).toMatchObject({ sessions: [], isLoadingSessions: true });
  lists[1]?.(json(200, { items: [session("new")], total: 1 }));
  await flush();
  expect(project.state.get()).toMatchObject({ sessions: [session("new")], isLoadingSessions: false });
});

/** A server with conversations, newest first, and the events of its project. */
class FakeServer {
  sessions: string[] = [];
  offsets: number[] = [];
  private tell: (text: string) => void = () => undefined;
  private readonly waiting: (() => void)[] = [];
  isSlow = false;

  constructor(count: number) {
    this.sessions = Array.from({ length: count }, (_, place) => `s${place}`);
    const page = Object.assign(new EventTarget(), { hidden: false });
    vi.stubGlobal("document", page);
    vi.stubGlobal("window", new EventTarget());
    vi.stubGlobal("fetch", (url: string) => this.answer(new URL(url, "http://localhost")));
  }

  /** Send the events of conversations. */
  async changed(...ids: string[]): Promise<void> {
    for (const id of ids) this.tell(`id: 1\nevent: session_changed\ndata: ${JSON.stringify({ session_id: id })}\n\n`);
    await flush();
  }

  use(id: string): void {
    this.sessions = [id, ...this.sessions.filter((other) => other !== id)];
  }

  release(): void {
    this.isSlow = false;
    for (const go of this.waiting.splice(0)) go();
  }

  private async answer({ pathname, searchParams }: URL): Promise<Response> {
    if (pathname === "/my/projects/1/events") {
      const body = new ReadableStream<Uint8Array>({ start: (stream) => void (this.tell = (text) => stream.enqueue(new TextEncoder().encode(text))) });
      return new Response(body);
    }
    if (pathname !== "/my/chat/sessions") return json(200, {});
    const [limit, offset] = ["limit", "offset"].map((name) => Number(searchParams.get(name))) as [number, number];
    this.offsets.push(offset);
    const items = this.sessions.slice(offset, offset + limit).map(session);
    const total = this.sessions.length;
    if (this.isSlow) await new Promise<void>((resolve) => this.waiting.push(resolve));
    return json(200, { items, total });
  }
}

async function opened(count: number): Promise<{ server: FakeServer; project: OpenProject; shown: () => string[] }> {
  const server = new FakeServer(count);
  const project = new OpenProject(1);
  void project.open();
  await flush();
  await server.changed("s0"); // the line is open: what follows is known by its events
  server.offsets = [];
  return { server, project, shown: () => project.state.get().sessions.map(({ session_id }) => session_id) };
}

async function openedTwoPages(count: number) {
  const open = await opened(count);
  open.project.loadMoreSessions();
  await flush();
  open.server.offsets = [];
  return open;
}

test("further conversations are loaded alone, and none twice if one has moved", async () => {
  const { server, project, shown } = await opened(350);
  project.loadMoreSessions();
  await flush();
  server.use("s340"); // its event is on its way still
  project.loadMoreSessions();
  await flush();
  expect(server.offsets).toEqual([100, 200]);
  expect(shown()).toEqual(Array.from({ length: 299 }, (_, place) => `s${place}`));
  await server.changed("s340");
  expect(shown()).toEqual(server.sessions.slice(0, 300));
  project.loadMoreSessions();
  await flush();
  expect(shown()).toEqual(server.sessions);
  expect(server.offsets).toEqual([100, 200, 0, 300]);
  project.close();
});

test("an event of a conversation that is not loaded loads the first page only", async () => {
  const { server, project, shown } = await openedTwoPages(250);
  server.use("s240");
  server.use("s150");
  await server.changed("s240", "s150");
  expect(server.offsets).toEqual([0]);
  expect(shown()).toEqual(server.sessions.slice(0, 201));
  await server.changed("s249"); // changed, but not used: it stays where it is
  expect(server.offsets).toEqual([0, 0]);
  expect(project.state.get()).toMatchObject({ loadedSessions: 201, totalSessions: 250 });
  project.close();
});

test("a conversation of a later page that is gone or archived leaves the list", async () => {
  const { server, project, shown } = await openedTwoPages(250);
  server.sessions = server.sessions.filter((id) => id !== "s150");
  server.isSlow = true;
  await server.changed("s150");
  server.use("s3");
  await server.changed("s3"); // its load overtakes the one before, and has to do its work too
  server.release();
  await flush();
  expect(shown()).toEqual(server.sessions.slice(0, 200));
  expect(shown()).not.toContain("s150");
  project.close();
});

test("a page that brings nothing new does not make the list ask without end", async () => {
  const { server, project, shown } = await opened(101);
  server.use("s100"); // no event tells of it
  project.loadMoreSessions();
  await flush();
  expect(shown()).toEqual(server.sessions);
  expect(server.offsets).toEqual([100, 0, 100]);
  project.close();
});

test("a hidden conversation counts for what is loaded, and comes back in its place", async () => {
  const { server, project, shown } = await opened(150);
  project.hideSession("s7");
  project.loadMoreSessions();
  await flush();
  expect(shown()).toEqual(server.sessions.filter((id) => id !== "s7"));
  expect(server.offsets).toEqual([100]);
  expect(project.state.get()).toMatchObject({ loadedSessions: 150, totalSessions: 150 });
  project.unhideSession("s7");
  expect(shown()).toEqual(server.sessions);
  project.putSession({ session_id: "new" } as Session);
  project.removeSession("s3");
  expect(project.state.get()).toMatchObject({ loadedSessions: 150, totalSessions: 150 });
  project.close();
});
