// First messages of conversations that don't exist yet, written without a connection. The browser keeps them until the
// server has made the conversation; the key keeps it from making two.

import { call } from "@/api/client";
import { Problem } from "@/api/problem";
import type { Session } from "@/api/types";
import { readDraftFiles, storeDraftFiles } from "../draftStore";
import { readBeginnings, readDraft, storeBeginnings, storeDraft } from "../preferences";
import { createCell } from "../store";
import { FIRST_WAIT_MS, MAX_WAIT_MS, isPassing, outboxOf } from "./outbox";

export interface FirstMessage {
  content: string;
  target: string | null;
  at: string;
}

export interface Beginning {
  key: string;
  projectId: number;
  planMode: Session["plan_mode"];
  messages: readonly FirstMessage[];
}

/** Conversations that wait for the connection, oldest first. */
export const beginnings = createCell<readonly Beginning[]>(readBeginnings().filter(isBeginning));
/** The last one that was made. */
export const begun = createCell<Session | null>(null);
/** The last one that the server refused: its text is in the draft of a new conversation. */
export const refusedBeginning = createCell<{ projectId: number; problem: Problem } | null>(null);

let isRunning = false;
let wakeUp: () => void = () => undefined;

/** Return the draft of a project's new conversation. */
export function newDraft(projectId: number): string {
  return `${projectId}.new`;
}

/** Give what is written in a draft, and its files, to another one. */
export async function moveDraft(from: string, to: string): Promise<void> {
  storeDraft(to, [readDraft(to), readDraft(from)].filter(Boolean).join("\n"));
  storeDraft(from, "");
  const files = await readDraftFiles(from);
  if (!files.length) return;
  await storeDraftFiles(to, files);
  await storeDraftFiles(from, []);
}

/** Keep a first message; what is written in the same project until it is sent goes to the same conversation. */
export function beginLater(projectId: number, planMode: Session["plan_mode"], key: string, content: string, target: string | null): void {
  const message = { content, target, at: new Date().toISOString() };
  const waiting = beginnings.get().find((each) => each.projectId === projectId);
  if (waiting) change((all) => all.map((each) => (each === waiting ? { ...each, messages: [...each.messages, message] } : each)));
  else change((all) => [...all, { key, projectId, planMode, messages: [message] }]);
  resumeBeginnings();
}

/** Send what waits, also of an earlier visit. */
export function resumeBeginnings(): void {
  if (!isRunning) void run();
}

/** Try again now: the server can be reached. */
export function wakeBeginnings(): void {
  wakeUp();
}

async function run(): Promise<void> {
  isRunning = true;
  try {
    let wait = FIRST_WAIT_MS;
    for (let [next] = beginnings.get(); next; [next] = beginnings.get()) {
      const outcome = await attempt(next);
      if (outcome === "held") break;
      if (outcome === "settled") {
        wait = FIRST_WAIT_MS;
        continue;
      }
      await pause(Math.max(wait, outcome * 1_000));
      wait = Math.min(2 * wait, MAX_WAIT_MS);
    }
  } finally {
    isRunning = false;
  }
}

/** Make a conversation; if that fails in passing, return how many seconds the server wants to be left alone. */
async function attempt({ key, projectId, planMode }: Beginning): Promise<"settled" | "held" | number> {
  let session: Session;
  try {
    session = await call("POST /my/chat/sessions", { body: { project_id: projectId, plan_mode: planMode, idempotency_key: key } });
  } catch (failure) {
    if (!(failure instanceof Problem)) throw failure;
    if (isPassing(failure)) return failure.retryAfter ?? 0;
    if (failure.status === 401) return "held"; // until somebody is signed in again
    const draft = newDraft(projectId);
    storeDraft(draft, [...take(key).map(({ content }) => content), readDraft(draft)].filter(Boolean).join("\n"));
    refusedBeginning.set({ projectId, problem: failure });
    return "settled";
  }
  // From here on the outbox of the conversation keeps them: both are stored without a pause in between.
  const outbox = outboxOf(session.session_id);
  for (const { content, target } of take(key)) outbox.add(content, target, []);
  begun.set(session);
  return "settled";
}

/** Take a beginning out of those that wait, and return its messages. */
function take(key: string): readonly FirstMessage[] {
  const messages = beginnings.get().find((each) => each.key === key)?.messages ?? [];
  change((all) => all.filter((each) => each.key !== key));
  return messages;
}

function change(next: (before: readonly Beginning[]) => readonly Beginning[]): void {
  beginnings.set(next);
  storeBeginnings(beginnings.get());
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    wakeUp = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

function isBeginning(value: unknown): value is Beginning {
  const one = value as Partial<Beginning> | null;
  return typeof one?.key === "string" && typeof one.projectId === "number" && typeof one.planMode === "string" && Array.isArray(one.messages);
}
