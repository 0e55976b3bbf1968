import { afterEach, beforeEach, expect, test, vi } from "vitest";
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
