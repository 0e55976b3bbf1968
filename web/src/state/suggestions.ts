// What could be done in a connected folder, by the names of its files; no model is asked.

export interface Suggestion {
  key: "suggestReadme" | "suggestExplain" | "suggestTodoFile" | "suggestTodos" | "suggestTestsIn" | "suggestTests";
  /** File or folder that it is about; "" if it is about all of them. */
  path: string;
}

const README = /^readme(\.[\w]+)?$/i;
const TODO = /^(todo|todos|roadmap|tasks)(\.[\w]+)?$/i;
const TESTS = /(^|\/)(tests?|spec|__tests__)\//i;
const TEST_FILE = /(^test_|_test\.|\.test\.|\.spec\.)/i;

/** Return three suggestions: about the README, the open work, and the tests, named if they are there. */
export function suggestionsFor(paths: readonly string[]): readonly Suggestion[] {
  const named = (pattern: RegExp) => shortest(paths.filter((path) => pattern.test(path.split("/").at(-1) ?? "")));
  const readme = named(README);
  const todo = named(TODO);
  const inTests = shortest(paths.flatMap((path) => (TESTS.test(path) ? [path.slice(0, path.search(TESTS) + (TESTS.exec(path)?.[0].length ?? 0))] : [])));
  const tests = inTests ?? named(TEST_FILE);
  return [
    readme === undefined ? { key: "suggestExplain", path: "" } : { key: "suggestReadme", path: readme },
    todo === undefined ? { key: "suggestTodos", path: "" } : { key: "suggestTodoFile", path: todo },
    tests === undefined ? { key: "suggestTests", path: "" } : { key: "suggestTestsIn", path: tests },
  ];
}

function shortest(paths: readonly string[]): string | undefined {
  return paths.toSorted((one, other) => one.length - other.length)[0];
}
