import { renderToStaticMarkup } from "react-dom/server";
import { expect, test, vi } from "vitest";
import { PlanEditor } from "./PlanEditor";

vi.hoisted(() => vi.stubGlobal("location", { pathname: "/", search: "", hash: "" })); // the router reads it when it is imported

function edited(description: string): string {
  const task = { id: "1", agent: "agent_coder", description, depends_on: [], isDropped: false, isNew: false };
  return renderToStaticMarkup(<PlanEditor tasks={[task]} agents={["agent_coder"]} onChange={() => undefined} />);
}

test("below a text with hidden characters it is shown once more, with them escaped", () => {
  expect(edited("read\u202e all")).toMatch(/read<span[^>]*>\\u202e<\/span> all/);
  expect(edited("read all").match(/read all/g)).toHaveLength(1);
});
