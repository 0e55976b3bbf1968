import { loadedLanguage, t } from "@/i18n";
import type { Subject } from "@/state/decisions";

/** Return a sentence of the server in the user's language, if it says exactly what the page knows to say; else as it is. */
export function warningText(text: string, { target }: Pick<Subject, "target">): string {
  if (loadedLanguage.get().language === "en") return text;
  const deleted = `Would delete ${target}`;
  if (text === deleted) return t("decisions.wouldDelete", { path: target });
  const size = text.startsWith(deleted) ? /^ \(([\d,]+) bytes?\)$/.exec(text.slice(deleted.length)) : null;
  if (size) return t("decisions.wouldDeleteSize", { path: target, count: countOf(size[1]) });
  const lost = /^Would (?:replace|delete) ([\d,]+) bytes that are not shown and can't be undone\.$/.exec(text);
  return lost ? t("decisions.wouldLose", { count: countOf(lost[1]) }) : text;
}

function countOf(digits = ""): number {
  return Number(digits.replaceAll(",", ""));
}
