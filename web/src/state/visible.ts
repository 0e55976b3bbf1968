// Text of others that somebody decides about: characters that can't be seen are shown escaped, and nothing is left out.

// Control characters, line and paragraph separators, bidirectional controls, and everything that Unicode lets a browser
// leave out. The same list is in artel/text.py.
const HIDDEN =
  "\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e" +
  "\\u2060-\\u206f\\u2800\\u3164\\ud800-\\udfff\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\u{13430}-\\u{13440}" +
  "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}";
// U+FE0F after a symbol outside ASCII only makes it an emoji. (What is found is one group, so that `split` keeps it.)
// eslint-disable-next-line no-misleading-character-class -- the ranges are of single characters
const ONE = new RegExp(`((?<!(?![\\0-\\x7f])[\\p{So}\\p{Sm}])\\ufe0f|(?!\\ufe0f)[${HIDDEN}])`, "u");
const EVERY = new RegExp(ONE, "gu");
const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const MAX_NAMED = 5;

/** Return a character as Python writes it: \x9d, \u202e, \U000e0041. */
export function escaped(character: string): string {
  const number = character.codePointAt(0) ?? 0;
  const hex = (digits: number) => number.toString(16).padStart(digits, "0");
  return SHORT[character] ?? (number > 0xffff ? `\\U${hex(8)}` : number > 0xff ? `\\u${hex(4)}` : `\\x${hex(2)}`);
}

/** Return the text with its hidden characters escaped, but for those in `keep`. */
export function visible(text: string, keep = ""): string {
  return text.replace(EVERY, (character) => (keep.includes(character) ? character : escaped(character)));
}

export interface VisiblePart {
  text: string;
  isHidden: boolean;
}

/** Return the text in parts: what is seen, and hidden characters, escaped. */
export function visibleParts(text: string, keep = "\n\t"): VisiblePart[] {
  return text
    .split(ONE)
    .map((part, place) => {
      const isHidden = place % 2 === 1 && !keep.includes(part);
      return { text: isHidden ? escaped(part) : part, isHidden };
    })
    .filter((part) => part.text !== "");
}

/** How many hidden characters texts have, and which; line ends and tabs are none. */
export interface Hidden {
  count: number;
  /** `U+202E, U+2066` */
  names: string;
  /** The first one, as it is shown. */
  shownAs: string;
}

export function hiddenIn(...texts: readonly string[]): Hidden | null {
  const found = texts.flatMap((text) => text.replaceAll("\r\n", "\n").match(EVERY) ?? []).filter((one) => !"\n\t".includes(one));
  const [first] = found;
  if (first === undefined) return null;
  const names = [...new Set(found.map((character) => `U+${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0").toUpperCase()}`))];
  const named = names.slice(0, MAX_NAMED).join(", ") + (names.length > MAX_NAMED ? ", …" : "");
  return { count: found.length, names: named, shownAs: escaped(first) };
}
