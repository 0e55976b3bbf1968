import { afterEach, expect, test, vi } from "vitest";
import { call, onSignedOut, urlOf } from "./client";
import { Problem } from "./problem";

const answer = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  vi.stubGlobal("fetch", vi.fn(() => Promise.resolve(new Response(body === null ? null : typeof body === "string" ? body : JSON.stringify(body), { status, headers }))));

afterEach(() => {
  vi.unstubAllGlobals();
  onSignedOut(() => undefined);
});

async function problemOfCall(): Promise<Problem> {
  const failure: unknown = await call("GET /my/projects").catch((error: unknown) => error);
  if (!(failure instanceof Problem)) throw new Error("no problem");
  return failure;
}

test("paths are filled and escaped, and empty parameters left out", () => {
  expect(urlOf("/my/projects/{project_id}/agents", { project_id: 7 }, { limit: 5, q: "a&b", role: null, last: undefined })).toBe("/my/projects/7/agents?limit=5&q=a%26b");
  expect(urlOf("/files/{path}", { path: "a b/ü?.md" })).toBe("/files/a%20b/%C3%BC%3F.md");
  expect(() => urlOf("/my/{id}")).toThrow("needs id");
});

test("a call sends JSON and returns the answer", async () => {
  answer(201, { id: 3, name: "Website" });
  const project = await call("POST /my/projects", { body: { name: "Website" } });
  expect(project).toEqual({ id: 3, name: "Website" });
  expect(fetch).toHaveBeenCalledWith("/my/projects", expect.objectContaining({ method: "POST", body: '{"name":"Website"}', headers: { "Content-Type": "application/json" } }));
});

test("an empty answer is null", async () => {
  answer(204, null);
  expect(await call("DELETE /my/projects/{project_id}", { path: { project_id: 1 } })).toBeNull();
});

test("a problem document becomes an exception with its words, code and fields", async () => {
  answer(422, { detail: "Too long.", code: "invalid_request", errors: [{ field: "body.name", message: "too long" }] }, { "Retry-After": "7" });
  const { message, code, status, fields, retryAfter, isUncertain } = await problemOfCall();
  expect({ message, code, status, fields, retryAfter, isUncertain }).toEqual({
    message: "Too long.",
    code: "invalid_request",
    status: 422,
    fields: [{ field: "body.name", message: "too long" }],
    retryAfter: 7,
    isUncertain: false,
  });
});

test("an answer of something else than the server is told by its status", async () => {
  answer(502, "<html>Bad gateway</html>");
  const { code, status, isUncertain } = await problemOfCall();
  expect([code, status, isUncertain]).toEqual(["", 502, true]);
});

test("a server that can't be reached is a problem without a status", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("failed")));
  const { reason, status, isUncertain } = await problemOfCall();
  expect([reason, status, isUncertain]).toEqual(["unreachable", 0, true]);
});

test("an ended login is told", async () => {
  const told = vi.fn();
  onSignedOut(told);
  answer(401, { detail: "The login has ended.", code: "not_authenticated" });
  await problemOfCall();
  expect(told).toHaveBeenCalledOnce();
});

test("a call that was given up raises what gave it up", async () => {
  const stop = new AbortController();
  vi.stubGlobal("fetch", (_url: string, { signal }: RequestInit) => {
    stop.abort();
    return Promise.reject(signal?.reason as Error);
  });
  await expect(call("GET /my/projects", {}, { signal: stop.signal })).rejects.toMatchObject({ name: "AbortError" });
});
