// Typed calls of the HTTP API. The browser's cookie signs them; an ended login is told to `onSignedOut`.

import { basePath } from "./base";
import { Problem, problemOf } from "./problem";
import type { Operations } from "./types";

const DEADLINE_MS = 30_000;

export type Operation = keyof Operations;
export type ResponseOf<K extends Operation> = Operations[K]["response"];
export type BodyOf<K extends Operation> = Operations[K]["body"];

// Only what the operation takes, and optional where everything in it is.
type Part<Name extends string, T> = [T] extends [undefined]
  ? Partial<Record<Name, undefined>>
  : Partial<T> extends T
    ? Partial<Record<Name, T>>
    : Record<Name, T>;
export type RequestOf<K extends Operation> = Part<"path", Operations[K]["path"]> &
  Part<"query", Operations[K]["query"]> &
  Part<"body", Operations[K]["body"]>;

export interface CallOptions {
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
  /** The bytes of an upload, instead of a JSON body. */
  raw?: { content: Blob | string; mediaType: string };
  deadlineMs?: number;
  /** Finish the request even if the page is left. */
  keepalive?: boolean;
}

interface AnyRequest {
  path?: Record<string, string | number>;
  query?: Record<string, unknown>;
  body?: unknown;
}

let signedOut: (problem: Problem) => void = () => undefined;

/** Set what is done when a request is refused because the login has ended. */
export function onSignedOut(listener: (problem: Problem) => void): void {
  signedOut = listener;
}

/** Tell that a request or stream was refused because the login has ended. */
export function reportSignedOut(problem: Problem): void {
  signedOut(problem);
}

/** Return the URL of an operation's path with its parameters, for links and downloads. */
export function urlOf(path: string, parameters: Record<string, string | number> = {}, query: Record<string, unknown> = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = parameters[name];
    if (value === undefined) throw new Error(`${path} needs ${name}`);
    // A path of a file keeps its slashes.
    return String(value).split("/").map(encodeURIComponent).join("/");
  });
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === null ? [] : [[name, String(value as string | number | boolean)]],
  );
  return `${basePath}${filled}${pairs.length ? `?${new URLSearchParams(pairs)}` : ""}`;
}

/** Call an operation and return its answer; raise Problem if it is refused or can't be reached. */
export async function call<K extends Operation>(
  operation: K,
  ...[request, options]: Partial<RequestOf<K>> extends RequestOf<K> ? [RequestOf<K>?, CallOptions?] : [RequestOf<K>, CallOptions?]
): Promise<ResponseOf<K>> {
  const [method, path] = operation.split(" ") as [string, string];
  const { path: parameters, query, body } = (request ?? {}) as AnyRequest;
  const text = await send(method, urlOf(path, parameters, query), body, options ?? {});
  return (text ? JSON.parse(text) : null) as ResponseOf<K>;
}

/** Return the text of a file at an address of `urlOf`. */
export function readText(url: string, options: CallOptions = {}): Promise<string> {
  return send("GET", url, undefined, options);
}

async function send(method: string, url: string, body: unknown, options: CallOptions): Promise<string> {
  const headers: Record<string, string> = { ...options.headers };
  let content: Blob | string | null = null;
  if (options.raw) {
    headers["Content-Type"] = options.raw.mediaType;
    content = options.raw.content;
  } else if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    content = JSON.stringify(body);
  }
  const deadline = AbortSignal.timeout(options.deadlineMs ?? DEADLINE_MS);
  const signal = options.signal ? AbortSignal.any([options.signal, deadline]) : deadline;
  let response: Response;
  let text: string;
  try {
    response = await fetch(url, { method, headers, body: content, signal, credentials: "same-origin", keepalive: options.keepalive ?? false });
    text = await response.text();
  } catch (failure) {
    if (options.signal?.aborted) throw failure; // whoever gave up knows
    const late = deadline.aborted;
    throw new Problem(late ? "timeout" : "unreachable", late ? "timeout" : "unreachable");
  }
  if (response.ok) return text;
  const problem = problemOf(response, text);
  if (problem.status === 401 && !url.startsWith(`${basePath}/auth/browser`)) reportSignedOut(problem);
  throw problem;
}

/** Return whether an error only says that its request was given up. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Return a key for a request that may have to be sent twice. (`crypto.randomUUID` needs HTTPS.) */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
