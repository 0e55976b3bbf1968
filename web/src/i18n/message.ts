// A message of a catalogue: text with {placeholders}, or one text per plural form, chosen by {count}.

export interface Plural {
  zero?: string;
  one?: string;
  two?: string;
  few?: string;
  many?: string;
  other: string;
}

export type Message = string | Plural;
export type Area = Readonly<Record<string, Message>>;

/** The catalogue of another language: the same keys as the English one. */
export type Translated<T extends Area> = { readonly [K in keyof T]: T[K] extends string ? string : Plural };

type Names<T extends string> = T extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never;
/** The placeholders of a message. */
export type Placeholders<M> = M extends string ? Names<M> : M extends { readonly other: infer Other extends string } ? Names<Other> | "count" : never;

export type Values = Readonly<Record<string, string | number>>;

/** Return a message with its values in place; numbers are written as the locale does. */
export function fill(message: Message, values: Values, locale: string): string {
  const text = typeof message === "string" ? message : pluralForm(message, Number(values.count ?? 0), locale);
  return text.replace(/\{(\w+)\}/g, (placeholder, name: string) => {
    const value = values[name];
    if (value === undefined) return placeholder;
    return typeof value === "number" ? new Intl.NumberFormat(locale).format(value) : value;
  });
}

function pluralForm(message: Plural, count: number, locale: string): string {
  return message[new Intl.PluralRules(locale).select(count)] ?? message.other;
}

/** Return the placeholders of a message, for the test that compares catalogues. */
export function placeholdersOf(message: Message): string[] {
  const texts = typeof message === "string" ? [message] : Object.values({ ...message } as Record<string, string>);
  const names = texts.flatMap((text) => [...text.matchAll(/\{(\w+)\}/g)].map((found) => found[1] ?? ""));
  return [...new Set(names)].sort();
}
