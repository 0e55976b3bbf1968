import { expect, test } from "vitest";
import { commandOf, leadingMention, replaceToken, tokenAt } from "./completion";

test("a mention is completed where the caret is", () => {
  const text = "Ask @co and go";
  const token = tokenAt(text, 7);
  expect(token).toEqual({ kind: "mention", word: "co", start: 4, end: 7 });
  expect(token && replaceToken(text, token, "@coder")).toEqual({ text: "Ask @coder and go", caret: 11 });
});

test.each(["me@example", "a@b.c", "@two words"])("%j is no mention", (text) => {
  expect(tokenAt(text, text.length)).toBeNull();
});

test("a command begins the text", () => {
  expect(tokenAt("/re", 3)).toEqual({ kind: "command", word: "re", start: 0, end: 3 });
  expect(tokenAt("say /re", 7)).toBeNull();
  expect(commandOf("/rename  A new title ")).toEqual({ name: "rename", rest: "A new title" });
  expect(commandOf("/usr/bin is a folder")).toBeNull();
});

test("a message that begins with a mention is for that agent", () => {
  expect(leadingMention("@coder fix it")).toBe("coder");
  expect(leadingMention("@coder")).toBeNull();
  expect(leadingMention("ask @coder now")).toBeNull();
});
