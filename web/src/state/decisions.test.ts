import { expect, test } from "vitest";
import type { ApprovalState } from "@/api/types";
import { beginningOf, isShort, subjectOf, together } from "./decisions";

const asked = (change: object): ApprovalState =>
  ({ id: "q", kind: "tool", tool: "tool_write_file", arguments: { path: "a.txt", content: "all of it" }, details: {}, risk: "low", turn_id: "t", agent_id: 1, ...change }) as unknown as ApprovalState;

test("a question without a diff says whether anything would change, and not the content", () => {
  const same = subjectOf(asked({ details: { diff: "", old_sha256: "b", new_sha256: "b" } }));
  expect([same.isSame, same.content, same.isDiff]).toEqual([true, "", false]);
  const emptied = subjectOf(asked({ details: { diff: "", old_sha256: "", new_sha256: "b" } }));
  expect([emptied.isSame, emptied.content]).toEqual([false, ""]);
});

test("a delete is announced as dangerous only if it can't be undone", () => {
  const deleted = (details: object) => subjectOf(asked({ tool: "tool_delete_file", arguments: { path: "a" }, risk: "high", details }));
  expect(deleted({ old_sha256: "b" })).toMatchObject({ canBeUndone: true, isHighRisk: false });
  expect(deleted({ old_sha256: "b", warning: "Would delete 10 bytes for good." })).toMatchObject({ canBeUndone: false, isHighRisk: true });
  expect(deleted({})).toMatchObject({ canBeUndone: false, isHighRisk: true });
});

test("every argument of a tool is listed, and none can look like two", () => {
  const subject = subjectOf(asked({ tool: "write_file", arguments: { path: "notes.md", content: "x\npath: safe.md" } }));
  expect(subject.content).toBe("path: notes.md\ncontent: x\n  | path: safe.md");
  expect(isShort(subject)).toBe(true);
});

test("only files of the same agent and turn that can be answered here are allowed together", () => {
  const one = asked({});
  const others = [asked({ id: "b" }), asked({ id: "c", turn_id: "u" }), asked({ id: "d", agent_id: 2 }), asked({ id: "e", details: { where: "terminal" } }), asked({ id: "f", tool: "tool_delete_file" })];
  expect(together([one, ...others], one).map(({ id }) => id)).toEqual(["q", "b"]);
  expect(together([one, ...others], asked({ tool: "tool_delete_file" }))).toEqual([]);
});

test("a delete shows its first lines, and how many more there are", () => {
  const lines = Array.from({ length: 8 }, (_, place) => `-line ${place}\n`).join("");
  const diff = `--- a/a\n+++ /dev/null\n@@ -1,300 +0,0 @@\n${lines}… cut, 300 lines in all\n`;
  const subject = subjectOf(asked({ tool: "tool_delete_file", arguments: { path: "a" }, details: { diff, old_sha256: "b" } }));
  expect(subject.size).toEqual({ added: 0, removed: 300 });
  expect(beginningOf(subject)).toEqual({ lines: ["line 0", "line 1", "line 2", "line 3", "line 4"], more: 295 });
  expect(beginningOf(subjectOf(asked({ tool: "tool_delete_file", arguments: { path: "a" }, details: { old_sha256: "b" } })))).toBe(null);
  expect(beginningOf(subjectOf(asked({ details: { diff } })))).toBe(null);
});
