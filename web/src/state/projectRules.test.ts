import { expect, test } from "vitest";
import { asksByRule, readApprovals, withApprovals, withToolRule } from "./projectRules";

test("changed rules keep the settings that the page does not know", () => {
  const stored = { colour: "red", plans: { approve_over_usd: 2 }, tools: { write_file: { denied_paths: ["*.env"] } } };
  const changed = withToolRule(withApprovals(stored, { ...readApprovals(stored), monthlyBudgetUsd: 20 }), "write_file", { requires_approval: true });

  expect(changed).toMatchObject({ colour: "red", monthly_budget_usd: 20, plans: { approve_over_usd: 2, approve_from_tasks: 3 }, approval_seconds: 300 });
  expect(changed.tools).toEqual({ write_file: { denied_paths: ["*.env"], requires_approval: true } });
  expect(asksByRule(changed, "write_file")).toBe(true);
});
