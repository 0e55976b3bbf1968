import { expect, test } from "vitest";
import type { ToolShown } from "@/api/types";
import { toolLabel } from "@/ui/tools";
import { listTools } from "./toolGroups";

const tool = (name: string): ToolShown => ({ name, level: "safe", description: "", enabled: true, requires_approval: false, parameters: {} });

test("tools stand in groups, and missing ones are among them", () => {
  const listed = listTools(["tool_read_file", "tool_run_command", "memory_read", "spawn_agent", "web_search", "jira"].map(tool), ["tool_read_file", "tool_gone"]);
  expect(listed.map(([group, tools]) => [group, tools.map(({ name }) => name)])).toEqual([
    ["files", ["tool_read_file", "tool_gone"]],
    ["memory", ["memory_read"]],
    ["team", ["spawn_agent"]],
    ["web", ["web_search"]],
    ["commands", ["tool_run_command"]],
    ["other", ["jira"]],
  ]);
  expect(listed[0]?.[1].map(({ tool: known, isOn }) => [known !== null, isOn])).toEqual([
    [true, true],
    [false, true],
  ]);
});

test("names of tools of plugins are words", () => expect(toolLabel("find_flights")).toBe("Find flights"));
