import { expect, test } from "vitest";
import { suggestionsFor } from "./suggestions";

test("files that are there are named, the one next to the root first", () => {
  expect(suggestionsFor(["docs/readme.md", "README.md", "src/app.py", "TODO.md", "tests/test_app.py"])).toEqual([
    { key: "suggestReadme", path: "README.md" },
    { key: "suggestTodoFile", path: "TODO.md" },
    { key: "suggestTestsIn", path: "tests/" },
  ]);
  expect(suggestionsFor(["src/app.test.ts"])[2]).toEqual({ key: "suggestTestsIn", path: "src/app.test.ts" });
});

test("a folder without them gets general suggestions", () => {
  expect(suggestionsFor(["readme-old/x.py"]).map(({ key }) => key)).toEqual(["suggestExplain", "suggestTodos", "suggestTests"]);
});
