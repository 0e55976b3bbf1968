import { afterEach, beforeEach, expect, test } from "vitest";
import { Problem } from "@/api/problem";
import { loadedLanguage } from ".";
import { codeText, problemText } from "./problemText";
import ru from "./ru";

beforeEach(() => loadedLanguage.set({ language: "ru", catalogue: ru }));
afterEach(() => loadedLanguage.set({ language: "en", catalogue: null }));

const busy = (retryAfter: number | null) => new Problem("The server is busy. Try again in a moment.", "answered", 503, "server_busy", [], retryAfter);

test("when to try again is said once", () => {
  expect(problemText(busy(null))).toBe("Сервер занят. Повторите чуть позже.");
  expect(problemText(busy(7))).toBe("Сервер занят. Повторите через 7 с.");
  expect(codeText("server_busy", "The server is busy.")).toBe("Сервер занят. Повторите чуть позже.");
});

test("an answer without a code has its status", () => {
  const problem = (retryAfter: number | null) => new Problem("HTTP 502", "answered", 502, "", [], retryAfter);
  expect(problemText(problem(null))).toBe("Сервер ответил ошибкой 502. Повторите чуть позже.");
  expect(problemText(problem(7))).toBe("Сервер ответил ошибкой 502. Повторите через 7 с.");
});

test("what the server says more precisely is in its words", () => {
  expect(codeText("model_refused", "The key of OpenAI is wrong.")).toBe("The key of OpenAI is wrong.");
});
