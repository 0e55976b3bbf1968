import { expect, test } from "vitest";
import type { Agent } from "@/api/types";
import { agentDrafts, changeDraft, copyOf, discardDraft, freeName, hasChanges, withDraft } from "./agentDraft";

const agent: Agent = {
  id: 3,
  project_id: 1,
  name: "agent_coder",
  role: "coder",
  model: "gpt-4o",
  temperature: 0.2,
  max_tokens: 4000,
  system_prompt: "You write code.",
  tools: ["tool_read_file", "tool_write_file"],
  concurrency_limit: 2,
  capabilities: [],
  memory: true,
  runtime: "local",
  loop: { understand: false, plan: false, critique: false, max_iterations: 2, max_tool_calls: 10 },
  fallback: { enabled: true, model: null },
  created_at: "2026-11-01T00:00:00Z",
  updated_at: "2026-11-01T00:00:00Z",
};

test("a draft has only what differs, and vanishes when all is as before", () => {
  changeDraft(agent, { role: "reviewer" });
  changeDraft(agent, { loop: { plan: true } });
  expect(agentDrafts.get()[3]).toEqual({ role: "reviewer", loop: { plan: true } });
  expect(withDraft(agent, agentDrafts.get()[3]).loop).toMatchObject({ plan: true, max_tool_calls: 10 });
  changeDraft(agent, { role: "coder" });
  changeDraft(agent, { loop: { plan: false } });
  changeDraft(agent, { tools: ["tool_write_file", "tool_read_file"] });
  expect(hasChanges(agentDrafts.get()[3])).toBe(false);
});

test("a discarded draft leaves those of other agents", () => {
  changeDraft(agent, { role: "a" });
  changeDraft({ ...agent, id: 4 }, { role: "b" });
  discardDraft(3);
  expect(agentDrafts.get()).toEqual({ 4: { role: "b" } });
});

test("a copy has a free name and everything but what the server gives", () => {
  const copy = copyOf(agent, ["agent_coder", "agent_Coder_2"]);
  expect(copy.name).toBe("agent_coder_3");
  expect(copy).not.toHaveProperty("id");
  expect(copy.tools).toEqual(agent.tools);
  expect(freeName("agent_coder_3", ["agent_coder_3"])).toBe("agent_coder_2");
});
