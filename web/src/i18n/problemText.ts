// What went wrong, in the user's language as far as the page knows it; else in the server's words, which say what to do.

import { Problem } from "@/api/problem";
import { t } from ".";

export function problemText(error: unknown): string {
  if (!(error instanceof Problem)) return t("errors.crashed");
  if (error.reason === "unreachable") return t("errors.unreachable");
  if (error.reason === "timeout") return t("errors.timeout");
  const text = error.code === "" ? t("errors.status", { status: error.status }) : error.message;
  if (error.retryAfter === null || /\d+ ?s/.test(text)) return text;
  return `${text} ${t("errors.retryAfter", { seconds: error.retryAfter })}`;
}
