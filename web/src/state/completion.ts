// What is being completed in a text: `@word` anywhere, `/word` at its beginning.

export interface Token {
  kind: "mention" | "command";
  word: string;
  start: number;
  end: number;
}

/** Return what stands before the caret and can be completed. */
export function tokenAt(text: string, caret: number): Token | null {
  const before = text.slice(0, caret);
  const command = /^\/(\p{L}*)$/u.exec(before);
  if (command) return { kind: "command", word: command[1] ?? "", start: 0, end: caret };
  const mention = /(?:^|[\s(])@([^\s@]*)$/u.exec(before);
  if (!mention) return null;
  const word = mention[1] ?? "";
  return { kind: "mention", word, start: caret - word.length - 1, end: caret };
}

/** Return the text with a token replaced, and where the caret goes. */
export function replaceToken(text: string, token: Token, value: string): { text: string; caret: number } {
  const rest = text.slice(token.end).replace(/^ /, "");
  const head = text.slice(0, token.start) + (value ? `${value} ` : "");
  return { text: head + rest, caret: head.length };
}

/** Return the command of a text such as `/rename New title`. */
export function commandOf(text: string): { name: string; rest: string } | null {
  const found = /^\/(\p{L}+)(?:\s+([\s\S]*))?$/u.exec(text.trim());
  return found ? { name: (found[1] ?? "").toLowerCase(), rest: (found[2] ?? "").trim() } : null;
}

/** Return the handle that a text begins with: `@coder fix it`. */
export function leadingMention(text: string): string | null {
  return /^@([\p{L}\p{N}_-]+)(?=\s)/u.exec(text)?.[1] ?? null;
}
