import { expect, test } from "vitest";
import { type Command, type Group, arrange, fit } from "./commands";
import { createSequence } from "./keys";

const command = (label: string, group: Group): Command => ({ id: label, group, label, run: () => undefined });

test("every word must be found, and beginnings count more", () => {
  expect(fit("Theme: Dark", "dark th")).toBeGreaterThan(0);
  expect(fit("Theme: Dark", "dark x")).toBe(0);
  expect(fit("Agents", "ag")).toBeGreaterThan(fit("Manage agents", "ag"));
  expect(fit("Manage agents", "ag")).toBeGreaterThan(fit("Bagpipe", "ag"));
  expect(fit("Память", "пам")).toBeGreaterThan(0);
});

test("the best group is first, found conversations stay, and each group is short", () => {
  const all = [command("New conversation", "commands"), command("Memory", "pages"), command("a memory of June", "found"), ...Array.from({ length: 20 }, (_, n) => command(`Talk about memory ${n}`, "conversations"))];
  const groups = arrange(all, "mem");
  expect(groups.map(([group]) => group)).toEqual(["pages", "conversations", "found"]);
  expect(groups[1]?.[1]).toHaveLength(8);
  expect(arrange(all, "").map(([group]) => group)).toEqual(["commands", "pages", "conversations", "found"]);
});

test("a second key counts only soon after g", () => {
  const next = createSequence();
  expect([next("g", 0), next("a", 500)]).toEqual([null, "a"]);
  expect([next("a", 600), next("g", 1000), next("a", 5000)]).toEqual([null, null, null]);
  expect([next("g", 6000), next("g", 6100), next("i", 6200)]).toEqual([null, "g", null]);
});
