import { expect, test } from "vitest";
import { hiddenIn, visible, visibleParts } from "./visible";

test("hidden characters are escaped, and others stay", () => {
  expect(visible("a\u202eb\u200d\n\u{e0041} ✓ привет")).toBe("a\\u202eb\\u200d\\n\\U000e0041 ✓ привет");
  expect(visible("❤\ufe0f a\ufe0f")).toBe("❤\ufe0f a\\ufe0f");
  expect(visibleParts("x\u2066y\n")).toEqual([
    { text: "x", isHidden: false },
    { text: "\\u2066", isHidden: true },
    { text: "y", isHidden: false },
    { text: "\n", isHidden: false },
  ]);
});

test("hidden characters are counted and named; line ends and tabs are none", () => {
  expect(hiddenIn("a\r\n\tb", "c")).toBeNull();
  expect(hiddenIn("a\u202e", "\u202e\u2066")).toEqual({ count: 3, names: "U+202E, U+2066", shownAs: "\\u202e" });
});
