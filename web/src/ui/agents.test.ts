import { expect, test } from "vitest";
import { agentHandle, agentHue, agentLabel } from "./agents";

test("agents have short names", () => {
  expect(["agent_coder", "agent_data-analyst", "reviewer", "agent_"].map(agentLabel)).toEqual(["Coder", "Data analyst", "Reviewer", "Agent"]);
  expect(agentHandle("agent_coder")).toBe("coder");
});

test("the starter pack has different colours", () => {
  const hues = ["agent_coder", "agent_analyzer", "agent_writer", "agent_researcher"].map(agentHue);
  expect(new Set(hues).size).toBe(4);
});
