import { renderToStaticMarkup } from "react-dom/server";
import { afterEach, expect, test } from "vitest";
import { loadedLanguage } from "@/i18n";
import en from "@/i18n/en";
import ru from "@/i18n/ru";
import { Target, targetText, wantsText } from "./Target";

afterEach(() => loadedLanguage.set({ language: "en", catalogue: null }));

test("a tool of the catalogue is asked about by its plain name", () => {
  const subject = { verb: "call", target: "web_fetch" } as const;
  loadedLanguage.set({ language: "en", catalogue: en });
  expect(wantsText(subject, "Coder", 0)).toBe("Coder wants to:");
  expect(renderToStaticMarkup(<Target subject={subject} />)).toBe('<strong title="web_fetch">Read a web page</strong>');
  loadedLanguage.set({ language: "ru", catalogue: ru });
  expect(targetText(subject)).toBe("Прочитать веб-страницу");
});

test("another tool is asked about by its own name, with hidden characters escaped", () => {
  const subject = { verb: "call", target: "web_fetch\u200b" } as const;
  loadedLanguage.set({ language: "en", catalogue: en });
  expect(wantsText(subject, "Coder", 0)).toBe("Coder wants to use");
  expect(targetText(subject)).toBe("web_fetch\\u200b");
  expect(renderToStaticMarkup(<Target subject={subject} />)).toMatch(/web_fetch<span class="\w*hidden\w*">\\u200b<\/span>/);
});

test("a file that is called like a tool is no tool", () => {
  loadedLanguage.set({ language: "en", catalogue: en });
  expect(targetText({ verb: "write", target: "shell" })).toBe("shell");
});
