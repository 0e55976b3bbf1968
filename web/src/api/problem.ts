// What went wrong with a request, as an exception that carries a sentence for people.

import type { FieldError } from "./types";

export type ProblemReason = "answered" | "unreachable" | "timeout";

export class Problem extends Error {
  override readonly name = "Problem";

  constructor(
    message: string,
    readonly reason: ProblemReason,
    /** HTTP status; 0 without an answer. */
    readonly status: number = 0,
    /** Stable code of the server, such as `project_not_found`; "" if the answer is not the server's own. */
    readonly code: string = "",
    readonly fields: readonly FieldError[] = [],
    /** Seconds after which to try again, if the server names them. */
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }

  /** Whether it can't be known that the server did nothing: the same request may be sent again with the same key. */
  get isUncertain(): boolean {
    return this.status === 0 || (this.status >= 500 && this.status !== 503);
  }
}

/** Return the problem of an answer that is not a success. */
export function problemOf(response: Pick<Response, "status" | "headers">, body: string): Problem {
  const { status } = response;
  const wait = Number(response.headers.get("Retry-After") ?? Number.NaN);
  const retryAfter = Number.isFinite(wait) ? wait : null;
  try {
    const { detail, code, errors } = JSON.parse(body) as { detail?: unknown; code?: unknown; errors?: FieldError[] };
    if (typeof detail === "string") {
      return new Problem(detail, "answered", status, typeof code === "string" ? code : "", errors ?? [], retryAfter);
    }
  } catch {
    // Not from Artel, but from something on the way to it.
  }
  return new Problem(`HTTP ${status}`, "answered", status, "", [], retryAfter);
}
