// Text of others that somebody decides about: characters that can't be seen are marked, and nothing is left out.

// Control characters, line and paragraph separators, bidirectional controls, and everything that Unicode lets a browser
// leave out. The same list is in artel/client/hidden_characters.py.
const HIDDEN =
  "\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e" +
  "\\u2060-\\u206f\\u2800\\u3164\\ud800-\\udfff\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\u{13430}-\\u{13440}" +
  "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}";
// U+FE0F after a symbol outside ASCII only makes it an emoji. (What is found is one group, so that `split` keeps it.)
const ONE = new RegExp(`((?<!(?![\\0-\\x7f])[\\p{So}\\p{Sm}])\\ufe0f|(?!\\ufe0f)[${HIDDEN}])`, "u");
const EVERY = new RegExp(ONE, "gu");
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
const MAX_NAMED = 5;

const hex = (character, digits) => character.codePointAt(0).toString(16).padStart(digits, "0");

/** A character as Python writes it: \x9d, \u202e, \U000e0041. */
function escaped(character) {
  const number = character.codePointAt(0);
  if (SHORT[character]) return SHORT[character];
  return number > 0xffff ? `\\U${hex(character, 8)}` : number > 0xff ? `\\u${hex(character, 4)}` : `\\x${hex(character, 2)}`;
}

/** Return the text with its hidden characters escaped, but for those in `keep`. */
export const visible = (text, keep = "\n\t") =>
  text.replace(EVERY, (character) => (keep.includes(character) ? character : escaped(character)));

/** Return the text as nodes, with its hidden characters marked, but for those in `keep`. */
export function visibleNodes(text, keep = "\n\t") {
  return text.split(ONE).map((part, place) => {
    if (place % 2 === 0 || keep.includes(part)) return document.createTextNode(part);
    return Object.assign(document.createElement("span"), { className: "hidden-character", textContent: escaped(part) });
  });
}

/** Show a text in an element; one that it shows already is left alone, for it may be selected. */
export function setVisible(element, text, keep) {
  if (element.textContent !== visible(text, keep)) element.replaceChildren(...visibleNodes(text, keep));
}

/** Return a sentence for above texts that have hidden characters, else "". Line ends and tabs are none. */
export function announcementOf(what, ...texts) {
  const found = texts.flatMap((text) => text.replaceAll("\r\n", "\n").match(EVERY) ?? []).filter((one) => !"\n\t".includes(one));
  if (!found.length) return "";
  const names = [...new Set(found.map((character) => `U+${hex(character, 4).toUpperCase()}`))];
  const named = names.slice(0, MAX_NAMED).join(", ") + (names.length > MAX_NAMED ? ", …" : "");
  const [count, are] = found.length === 1 ? ["1 hidden character", "it is"] : [`${found.length} hidden characters`, "they are"];
  return `${what} has ${count} (${named}); ${are} shown as ${escaped(found[0])}.`;
}
