import { expect, test } from "vitest";
import { type Chunk, sizeOf } from "./budgets";

const chunks = new Map<string, Chunk>(
  [
    { fileName: "main.js", size: 10, imports: ["shared.js"] },
    { fileName: "chat.js", size: 5, imports: ["shared.js", "main.js"] },
    { fileName: "shared.js", size: 100, imports: [] },
  ].map((chunk) => [chunk.fileName, chunk]),
);

test("static imports are counted, and each chunk once", () => {
  expect(sizeOf(["main.js"], chunks)).toBe(110);
  expect(sizeOf(["main.js", "chat.js"], chunks)).toBe(115);
});
