// What went wrong, in the user's language as far as the page knows it; else in the server's words, which say what to do.

import { Problem } from "@/api/problem";
import { loadedLanguage, t, tOr } from ".";

/** Codes of what is over soon. */
const PASSING: ReadonlySet<string> = new Set(["agent_in_error", "database_unavailable", "model_rate_limited", "model_unavailable", "server_busy"]);

export function problemText(error: unknown): string {
  if (!(error instanceof Problem)) return t("errors.crashed");
  if (error.reason === "unreachable") return t("errors.unreachable");
  if (error.reason === "timeout") return t("errors.timeout");
  const text = error.code === "" ? t("errors.status", { status: error.status }) : meaningOf(error.code, error.message);
  if (/\d+ ?s/.test(text)) return text;
  if (error.retryAfter !== null) return `${text} ${t("errors.retryAfter", { seconds: error.retryAfter })}`;
  return error.code === "" ? `${text} ${t("errors.retryLater")}` : codeText(error.code, error.message);
}

/** Return what an error code means; in English the words of the server, which know more. */
export function codeText(code: string, words: string): string {
  const text = meaningOf(code, words);
  return text !== words && PASSING.has(code) ? `${text} ${t("errors.retryLater")}` : text;
}

function meaningOf(code: string, words: string): string {
  return loadedLanguage.get().language === "en" && words !== "" ? words : tOr(`errors.code_${code}`, words);
}
