import { expect, test } from "vitest";
import { foldContext, parseDiff, sizeOf, splitRows } from "./diff";

const DIFF = `--- a/app.py
+++ b/app.py
@@ -1,3 +1,4 @@ def main
 one
--- two
+two
+three
 four
\\ No newline at end of file
--- /dev/null
+++ b/new.txt
@@ -0,0 +1,1 @@
+x
`;

test("a diff of two files has their names, lines and numbers; a removed line may look like a header", () => {
  const [first, second] = parseDiff(DIFF);
  expect(first?.path).toBe("app.py");
  expect(first?.hunks[0]?.heading).toBe("@@ -1,3 +1,4 @@ def main");
  expect(first?.hunks[0]?.lines.map(({ kind, text, before, after }) => [kind, text, before, after])).toEqual([
    ["kept", "one", 1, 1],
    ["removed", "-- two", 2, null],
    ["added", "two", null, 2],
    ["added", "three", null, 3],
    ["kept", "four", 3, 4],
    ["note", "\\ No newline at end of file", null, null],
  ]);
  expect(second).toMatchObject({ path: "new.txt", added: 1, removed: 0 });
  expect(sizeOf(DIFF)).toEqual({ added: 3, removed: 1 });
});

test("a diff without headers, and one that was cut, is shown whole", () => {
  const [file] = parseDiff("-old\n+new\n… cut, 9 characters in all\n", "a.txt");
  expect(file?.path).toBe("a.txt");
  expect(file?.hunks[0]?.lines.map(({ kind, text }) => [kind, text])).toEqual([
    ["removed", "old"],
    ["added", "new"],
    ["note", "… cut, 9 characters in all"],
  ]);
  expect(parseDiff("")).toEqual([]);
});

test("removed lines stand beside the added ones", () => {
  const lines = parseDiff("-a\n-b\n+c\n d\n+e")[0]?.hunks[0]?.lines ?? [];
  expect(splitRows(lines).map(({ left, right }) => [left?.text, right?.text])).toEqual([
    ["a", "c"],
    ["b", undefined],
    ["d", "d"],
    [undefined, "e"],
  ]);
});

test("long runs of unchanged lines are folded, and no line is lost", () => {
  const kept = Array.from({ length: 20 }, (_, number) => ` ${number}`);
  const lines = parseDiff([...kept, "+new", ...kept].join("\n"))[0]?.hunks[0]?.lines ?? [];
  const stretches = foldContext(lines);
  expect(stretches.map(({ lines: some, isFolded }) => [some.length, isFolded])).toEqual([
    [17, true],
    [7, false],
    [17, true],
  ]);
  expect(stretches.flatMap(({ lines: some }) => some)).toEqual(lines);
});
