import { describe, expect, test } from "vitest";
import enBase from "./en";
import enPages from "./en/pages";
import { type Area, fill, placeholdersOf } from "./message";
import ruBase from "./ru";
import ruPages from "./ru/pages";
import zhBase from "./zh";
import zhPages from "./zh/pages";

const ru = { ...ruBase, ...ruPages };
const english: Record<string, Area> = { ...enBase, ...enPages };
const others: Record<string, Record<string, Area>> = { ru, zh: { ...zhBase, ...zhPages } };

describe.each(Object.keys(others))("%s", (language) => {
  const catalogue = others[language] ?? {};

  test("has the areas and keys of the English catalogue", () => {
    const keysOf = (all: Record<string, Area>) => Object.entries(all).flatMap(([area, messages]) => Object.keys(messages).map((key) => `${area}.${key}`)).sort();
    expect(keysOf(catalogue)).toEqual(keysOf(english));
  });

  test("has the same placeholders in every message", () => {
    const found = (all: Record<string, Area>) =>
      Object.fromEntries(Object.entries(all).flatMap(([area, messages]) => Object.entries(messages).map(([key, message]) => [`${area}.${key}`, placeholdersOf(message)])));
    expect(found(catalogue)).toEqual(found(english));
  });

  test("has every plural form that the language needs", () => {
    const needed = new Intl.PluralRules(language).resolvedOptions().pluralCategories;
    for (const messages of Object.values(catalogue)) {
      for (const message of Object.values(messages)) {
        if (typeof message !== "string") expect(Object.keys(message).sort()).toEqual([...needed].sort());
      }
    }
  });
});

test("plural forms follow the language", () => {
  const form = (count: number) => fill(ru.chat.planTasks, { count }, "ru");
  expect([1, 3, 5, 21].map(form)).toEqual(["1 задача", "3 задачи", "5 задач", "21 задача"]);
});

test("numbers are written as the locale does, and unknown placeholders stay", () => {
  expect(fill("{count} of {total}", { count: 1234 }, "en")).toBe("1,234 of {total}");
});
