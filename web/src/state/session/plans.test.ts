import { expect, test } from "vitest";
import { PLAN_EXPIRED, planStatus } from "./plans";
import type { WorkflowTaskState } from "@/api/types";

const task = (refused: boolean) => ({ status: "completed", refused }) as WorkflowTaskState;

test("a plan that nobody approved in time is not called one that ran out of time", () => {
  expect(planStatus({ status: "timeout", error_code: PLAN_EXPIRED, tasks: [] })).toBe("expired");
  expect(planStatus({ status: "timeout", error_code: "timeout", tasks: [] })).toBe("timeout");
});

test("a plan with a call that was not approved has answered, and is not done", () => {
  expect(planStatus({ status: "completed", error_code: null, tasks: [task(false), task(true)] })).toBe("answered");
  expect(planStatus({ status: "completed", error_code: null, tasks: [task(false)] })).toBe("completed");
});
