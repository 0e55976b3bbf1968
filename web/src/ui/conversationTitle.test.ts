import { afterEach, expect, test } from "vitest";
import { loadedLanguage } from "@/i18n";
import ru from "@/i18n/ru";
import { conversationTitle } from "./conversationTitle";

afterEach(() => loadedLanguage.set({ language: "en", catalogue: null }));

test("a conversation without a title yet is called so in the user's language", () => {
  loadedLanguage.set({ language: "ru", catalogue: ru });
  expect(conversationTitle("New session")).toBe("Новый разговор");
  expect(conversationTitle("New sessions\u200b")).toBe("New sessions\\u200b");
});
