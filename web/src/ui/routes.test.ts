import { expect, test } from "vitest";
import { matchRoute, paths } from "./routes";

test("every path that the page makes is one that it knows", () => {
  const made = [
    [paths.home(), { page: "home", projectId: null, id: null }],
    [paths.chat(7), { page: "chat", projectId: 7, id: "new" }],
    [paths.chat(7, "a b/c"), { page: "chat", projectId: 7, id: "a b/c" }],
    [paths.inbox(), { page: "inbox", projectId: null, id: null }],
    [paths.inbox(7), { page: "inbox", projectId: 7, id: null }],
    [paths.agents(7, 3), { page: "agents", projectId: 7, id: "3" }],
    [paths.projectSettings(7, "budget"), { page: "projectSettings", projectId: 7, id: "budget" }],
    [paths.settings("account"), { page: "settings", projectId: null, id: "account" }],
    [paths.manage(), { page: "manage", projectId: null, id: null }],
    [paths.welcome(), { page: "welcome", projectId: null, id: null }],
  ] as const;
  for (const [path, route] of made) expect(matchRoute(path), path).toEqual(route);
});

test("other paths are no pages", () => {
  for (const path of ["/nothing", "/p", "/p/x/c", "/p/1/nothing", "/p/1/c/2/3", "/settings/a/b", "/p/%E0%A4%A/c"]) expect(matchRoute(path), path).toBeNull();
});

test("the place beside the old page is home", () => {
  expect(matchRoute("/next")).toBeNull();
});
