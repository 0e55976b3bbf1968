import type { ToolShown } from "@/api/types";

export const GROUPS = ["files", "memory", "team", "web", "commands", "other"] as const;
export type Group = (typeof GROUPS)[number];

export interface ListedTool {
  name: string;
  /** null: the agent has it in its list, but the server doesn't know it. */
  tool: ToolShown | null;
  isOn: boolean;
}

const COMMANDS = new Set(["tool_run_command", "shell", "code_execute"]);
const TEAM = new Set(["spawn_agent", "write_file", "read_file", "list_files", "get_workspace_info"]);
const FILES = new Set(["file_read", "file_write"]);

/** Return where a tool is listed. */
export function groupOf(name: string): Group {
  if (COMMANDS.has(name)) return "commands";
  if (TEAM.has(name)) return "team";
  if (FILES.has(name) || name.startsWith("tool_")) return "files";
  if (name.includes("memory")) return "memory";
  if (name.startsWith("web_") || name === "api_call") return "web";
  return "other";
}

/** Return all tools by group: those of the server, and those that the agent has and the server lacks. */
export function listTools(known: readonly ToolShown[], chosen: readonly string[]): [Group, ListedTool[]][] {
  const names = new Set(known.map(({ name }) => name));
  const missing = chosen.filter((name) => !names.has(name));
  const all: ListedTool[] = [
    ...known.map((tool) => ({ name: tool.name, tool, isOn: chosen.includes(tool.name) })),
    ...missing.map((name) => ({ name, tool: null, isOn: true })),
  ];
  return GROUPS.map((group): [Group, ListedTool[]] => [group, all.filter(({ name }) => groupOf(name) === group)]).filter(([, tools]) => tools.length > 0);
}
