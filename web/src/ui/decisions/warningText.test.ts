import { afterEach, expect, test } from "vitest";
import { loadedLanguage } from "@/i18n";
import en from "@/i18n/en";
import ru from "@/i18n/ru";
import { warningText } from "./warningText";

afterEach(() => loadedLanguage.set({ language: "en", catalogue: null }));

test("what would be lost is told in the user's language", () => {
  loadedLanguage.set({ language: "ru", catalogue: ru });
  expect(warningText("Would delete a.txt (1,234 bytes)", { target: "a.txt" })).toMatch(/^Будет удалён файл a\.txt \(1\s234 байта\)$/);
  expect(warningText("Would delete a.txt", { target: "a.txt" })).toBe("Будет удалён файл a.txt");
  expect(warningText("Would replace 5 bytes that are not shown and can't be undone.", { target: "a.txt" })).toBe("Пропадут 5 байт, которые здесь не показаны. Отменить это нельзя.");
  loadedLanguage.set({ language: "en", catalogue: en });
  expect(warningText("Would delete a.txt (4 bytes)", { target: "a.txt" })).toBe("Would delete a.txt (4 bytes)");
});

test("any other sentence stays as it came", () => {
  loadedLanguage.set({ language: "ru", catalogue: ru });
  for (const text of ["Would delete b.txt (4 bytes)", "Would delete a.txt (4 bytes). Trust me.", "What is not shown has 1 hidden character (U+202E)."]) {
    expect(warningText(text, { target: "a.txt" })).toBe(text);
  }
});
