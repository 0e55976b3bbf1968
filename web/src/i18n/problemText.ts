// What went wrong, in the user's language as far as the page knows it; else in the server's words, which say what to do.

import { Problem } from "@/api/problem";
import { loadedLanguage, t, tOr } from ".";

export function problemText(error: unknown): string {
  if (!(error instanceof Problem)) return t("errors.crashed");
  if (error.reason === "unreachable") return t("errors.unreachable");
  if (error.reason === "timeout") return t("errors.timeout");
  const text = error.code === "" ? t("errors.status", { status: error.status }) : codeText(error.code, error.message);
  if (error.retryAfter === null || /\d+ ?s/.test(text)) return text;
  return `${text} ${t("errors.retryAfter", { seconds: error.retryAfter })}`;
}

/** Return what an error code means; in English the words of the server, which know more. */
export function codeText(code: string, words: string): string {
  return loadedLanguage.get().language === "en" && words !== "" ? words : tOr(`errors.code_${code}`, words);
}
