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

describe("the source", () => {
  const files = import.meta.glob<string>(["../**/*.{ts,tsx}", "!../**/*.test.*", "!./{en,ru,zh}/*"], { query: "?raw", import: "default", eager: true });
  const source = Object.values(files).join("\n");
  const keys = Object.entries(english).flatMap(([area, messages]) => Object.keys(messages).map((key) => `${area}.${key}`));
  const literals = new Set([...source.matchAll(/["'`](\w+(?:\.\w+)?)["'`]/g)].map(([, literal = ""]) => literal));
  const properties = new Set([...source.matchAll(/\b(\w+):/g)].map(([, name = ""]) => name));
  const templates = [...source.matchAll(/`(\w+\.\w*)\$\{[^}`]*\}(\w*)`/g)].map(([, start = "", end = ""]) => ({ start, end }));

  /** Whether a template makes the key; one without a prefix of its own needs the name in the source too. */
  const isMade = (key: string) =>
    templates.some(({ start, end }) => {
      if (!key.startsWith(start) || !key.endsWith(end)) return false;
      const name = key.slice(start.length, key.length - end.length);
      return !start.endsWith(".") || literals.has(name) || properties.has(name);
    });

  test("uses every key", () => {
    expect(Object.keys(files).length).toBeGreaterThan(100);
    expect(keys.filter((key) => !literals.has(key) && !isMade(key))).toEqual([]);
  });

  test("names no key that is missing", () => {
    const named = [...literals].filter((literal) => literal.includes(".") && Object.hasOwn(english, literal.slice(0, literal.indexOf("."))));
    expect(named.filter((key) => !keys.includes(key))).toEqual([]);
  });
});

test("plural forms follow the language", () => {
  const form = (count: number) => fill(ru.chat.planTasks, { count }, "ru");
  expect([1, 3, 5, 21].map(form)).toEqual(["1 задача", "3 задачи", "5 задач", "21 задача"]);
  const times = (count: number) => fill(ru.chat.didOtherMany, { count, tool: "Погода" }, "ru");
  expect([3, 5, 21].map(times)).toEqual(["Погода: 3 раза", "Погода: 5 раз", "Погода: 21 раз"]);
});

test("numbers are written as the locale does, and unknown placeholders stay", () => {
  expect(fill("{count} of {total}", { count: 1234 }, "en")).toBe("1,234 of {total}");
});
