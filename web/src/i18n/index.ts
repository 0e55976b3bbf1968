// Texts in the user's language: `t("chat.send")`. Components use `useT` of @/ui/hooks, so that they follow a change.

import { preferences, setPreference } from "@/state/preferences";
import { createCell } from "@/state/store";
import type english from "./en";
import type englishPages from "./en/pages";
import { type Message, type Placeholders, type Values, fill } from "./message";

export const LANGUAGES = { en: "English", ru: "Русский", zh: "中文" } as const;
export type Language = keyof typeof LANGUAGES;

type English = typeof english & typeof englishPages;
export type Catalogue = { readonly [A in keyof English]: Readonly<Record<keyof English[A], Message>> };
export type Key = { [A in keyof English]: `${A}.${keyof English[A] & string}` }[keyof English];
type MessageOf<K extends Key> = K extends `${infer A extends keyof English}.${infer N}`
  ? N extends keyof English[A] ? English[A][N] : never
  : never;
type Arguments<K extends Key> = [Placeholders<MessageOf<K>>] extends [never] ? [] : [values: Readonly<Record<Placeholders<MessageOf<K>>, string | number>>];

type Loader = () => Promise<{ default: Partial<Catalogue> }>;

const LOADERS: Record<Language, Loader> = {
  en: () => import("./en"),
  ru: () => import("./ru"),
  zh: () => import("./zh"),
};
const PAGE_LOADERS: Record<Language, Loader> = {
  en: () => import("./en/pages"),
  ru: () => import("./ru/pages"),
  zh: () => import("./zh/pages"),
};
let arePagesWanted = false;

interface Loaded {
  language: Language;
  catalogue: Partial<Catalogue> | null;
}

export const loadedLanguage = createCell<Loaded>({ language: "en", catalogue: null });

export function isLanguage(name: string): name is Language {
  return name in LANGUAGES;
}

/** Return the first of the user's languages that there is a catalogue for. */
export function detectLanguage(wanted: readonly string[]): Language {
  for (const name of wanted) {
    const language = name.toLowerCase().split("-")[0] ?? "";
    if (isLanguage(language)) return language;
  }
  return "en";
}

/** Load the catalogue of the language that was chosen, else of the browser's. */
export async function loadLanguage(): Promise<void> {
  const chosen = preferences.get().language;
  const language = chosen !== null && isLanguage(chosen) ? chosen : detectLanguage(navigator.languages);
  const loaders = [LOADERS[language], ...(arePagesWanted ? [PAGE_LOADERS[language]] : [])];
  const parts = await Promise.all(loaders.map((load) => load()));
  const catalogue = Object.assign({}, ...parts.map((part) => part.default)) as Partial<Catalogue>;
  document.documentElement.lang = language;
  loadedLanguage.set({ language, catalogue });
}

/** Return a page whose texts are not needed by every visit, once they are there. */
export async function withPageTexts<M>(page: Promise<M>): Promise<M> {
  if (!arePagesWanted) {
    const { language } = loadedLanguage.get();
    const { default: texts } = await PAGE_LOADERS[language]();
    arePagesWanted = true;
    if (loadedLanguage.get().language === language) loadedLanguage.set((before) => ({ ...before, catalogue: { ...before.catalogue, ...texts } }));
    else await loadLanguage(); // another one was chosen meanwhile
  }
  return page;
}

/** Change the language; null follows the browser. */
export async function chooseLanguage(language: Language | null): Promise<void> {
  setPreference("language", language);
  await loadLanguage();
}

/** Return the locale of dates and numbers: the browser's own, if it speaks the page's language. */
export function locale(): string {
  const { language } = loadedLanguage.get();
  if (typeof navigator === "undefined") return language;
  return navigator.languages.find((name) => name.toLowerCase().split("-")[0] === language) ?? language;
}

/** Return a text in the user's language. */
export function t<K extends Key>(key: K, ...[values]: Arguments<K>): string {
  return fill(messageOf(key) ?? key, values ?? {}, locale());
}

export type T = typeof t;

/** Return a text by a key that is made at run time, such as a status of the server; `fallback` if there is none. */
export function tOr(key: string, fallback: string, values: Values = {}): string {
  const message = messageOf(key);
  return message === undefined ? fallback : fill(message, values, locale());
}

function messageOf(key: string): Message | undefined {
  const { catalogue } = loadedLanguage.get();
  const dot = key.indexOf(".");
  const area = catalogue?.[key.slice(0, dot) as keyof Catalogue] as Readonly<Record<string, Message>> | undefined;
  return area?.[key.slice(dot + 1)];
}
