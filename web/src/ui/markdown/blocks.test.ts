import { describe, expect, test } from "vitest";
import { splitBlocks } from "./blocks";

describe("splitBlocks", () => {
  test("paragraphs, headings and tables are blocks of their own", () => {
    expect(splitBlocks("# One\n\ntwo\nlines\n\n| a |\n|---|\n| 1 |\n")).toEqual(["# One\n\n", "two\nlines\n\n", "| a |\n|---|\n| 1 |\n"]);
  });

  test("blank lines inside code stay inside, also while it is not closed yet", () => {
    const code = "```py\na = 1\n\nb = 2\n```\n";
    expect(splitBlocks(`${code}\nafter`)).toEqual([`${code}\n`, "after"]);
    expect(splitBlocks("```py\na = 1\n\nb")).toEqual(["```py\na = 1\n\nb"]);
    expect(splitBlocks("````\n```\n\nx\n````\n\ny")).toEqual(["````\n```\n\nx\n````\n\n", "y"]);
  });

  test("formulas stay whole", () => {
    expect(splitBlocks("$$\na\n\nb\n$$\n\nend")).toEqual(["$$\na\n\nb\n$$\n\n", "end"]);
    expect(splitBlocks("$$a$$\n\nend")).toEqual(["$$a$$\n\n", "end"]);
  });

  test("a list with blank lines between its items is one block", () => {
    expect(splitBlocks("1. one\n\n   more\n\n2. two\n\nafter")).toEqual(["1. one\n\n   more\n\n2. two\n\n", "after"]);
  });

  test("a text that defines links is not split, so that they work everywhere", () => {
    const text = "See [docs][1].\n\n[1]: https://example.org\n";
    expect(splitBlocks(text)).toEqual([text]);
  });

  test("nothing is lost or added", () => {
    const parts = ["", "\n", "a\n", "- x\n", "  y\n", "```\n", "~~~\n", "$$\n", "> q\n", "| t |\n", "    c\n"];
    for (let seed = 1; seed <= 500; seed++) {
      let random = seed;
      let text = "";
      for (let count = 0; count < 12; count++) {
        random = (random * 1103515245 + 12345) % 2147483648;
        text += parts[random % parts.length] ?? "";
      }
      expect(splitBlocks(text).join("")).toBe(text);
    }
  });

  test("blocks before the last do not change while a text grows", () => {
    const text = "# T\n\npara one\n\n- a\n- b\n\n  c\n\n```js\nlet x;\n\nlet y;\n```\n\nend of it\n";
    let before: string[] = [];
    for (let length = 1; length <= text.length; length++) {
      const blocks = splitBlocks(text.slice(0, length));
      expect(blocks.slice(0, Math.max(0, before.length - 1))).toEqual(before.slice(0, -1));
      before = blocks;
    }
  });
});
