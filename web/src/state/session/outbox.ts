// Messages on their way to the server, in order. The browser keeps each until the server has accepted it, so neither a
// lost connection nor a closed page loses one; its key keeps the server from taking it twice.

import { call, newKey } from "@/api/client";
import { Problem } from "@/api/problem";
import type { Attachment, MessageAccepted } from "@/api/types";
import { readOutbox, storeOutbox, storedOutboxes } from "../preferences";

export const FIRST_WAIT_MS = 1_000;
export const MAX_WAIT_MS = 15_000;
const LATER: readonly string[] = ["server_busy", "database_unavailable"];

export interface Outgoing {
  key: string;
  content: string;
  target: string | null;
  attachments: readonly Attachment[];
  at: string;
}

/** Who wants to know what becomes of the messages. */
export interface Watcher {
  /** Whether the user would see a message that comes back. */
  isOpen: () => boolean;
  onAdded: (message: Outgoing) => void;
  onAccepted: (message: Outgoing, answer: MessageAccepted) => void;
  /** It could not be sent now, and is tried again. */
  onDelayed: (message: Outgoing) => void;
  onRefused: (message: Outgoing, problem: Problem) => void;
}

const outboxes = new Map<string, Outbox>();

/** Return the outbox of a conversation: it goes on sending when the conversation is left. */
export function outboxOf(sessionId: string): Outbox {
  const known = outboxes.get(sessionId);
  if (known) return known;
  const outbox = new Outbox(sessionId);
  outboxes.set(sessionId, outbox);
  return outbox;
}

/** Send what an earlier visit could not send, of all conversations. */
export function resumeOutboxes(): void {
  for (const id of storedOutboxes()) outboxOf(id);
}

/** Try again now: the server can be reached. */
export function wakeOutboxes(): void {
  for (const outbox of outboxes.values()) outbox.wake();
}

export class Outbox {
  private waiting: Outgoing[];
  private watcher: Watcher | null = null;
  private isSending = false;
  private wakeUp: () => void = () => undefined;
  /** A refused message that may have arrived nevertheless: sent again, it has the same key. */
  private uncertain: Outgoing | null = null;

  constructor(private readonly id: string) {
    this.waiting = readOutbox(id).filter(isOutgoing);
    void this.run();
  }

  /** Tell what waits already, and what becomes of it; only the last one who asked is told. */
  watch(watcher: Watcher): void {
    this.watcher = watcher;
    for (const message of this.waiting) watcher.onAdded(message);
    void this.run();
  }

  add(content: string, target: string | null, attachments: readonly Attachment[]): Outgoing {
    const before = this.uncertain;
    const isSame = before !== null && before.content === content && before.target === target && before.attachments.length === attachments.length;
    const message = { key: isSame ? before.key : newKey(), content, target, attachments, at: new Date().toISOString() };
    this.uncertain = null;
    this.waiting.push(message);
    storeOutbox(this.id, this.waiting);
    this.watcher?.onAdded(message);
    void this.run();
    return message;
  }

  wake(): void {
    this.wakeUp();
  }

  private async run(): Promise<void> {
    if (this.isSending) return;
    this.isSending = true;
    let wait = FIRST_WAIT_MS;
    for (let [message] = this.waiting; message; [message] = this.waiting) {
      const outcome = await this.attempt(message);
      if (outcome === "held") break;
      if (outcome === "settled") {
        wait = FIRST_WAIT_MS;
        continue;
      }
      await this.pause(Math.max(wait, outcome * 1_000));
      wait = Math.min(2 * wait, MAX_WAIT_MS);
    }
    this.isSending = false;
  }

  /** Send a message; if that is not settled, return how many seconds the server wants to be left alone. */
  private async attempt(message: Outgoing): Promise<"settled" | "held" | number> {
    try {
      const answer = await deliver(this.id, message);
      this.remove(message);
      this.watcher?.onAccepted(message, answer);
    } catch (failure) {
      if (!(failure instanceof Problem)) {
        this.isSending = false;
        this.remove(message);
        throw failure;
      }
      if (isPassing(failure)) {
        this.watcher?.onDelayed(message);
        return failure.retryAfter ?? 0;
      }
      // A refused message goes back to its composer. If that is not there, it is tried again when it is.
      if (!this.watcher?.isOpen()) return "held";
      this.uncertain = failure.isUncertain ? message : null;
      this.remove(message);
      this.watcher.onRefused(message, failure);
    }
    return "settled";
  }

  private remove({ key }: Outgoing): void {
    this.waiting = this.waiting.filter((message) => message.key !== key);
    storeOutbox(this.id, this.waiting);
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wakeUp = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

async function deliver(sessionId: string, { key, content, target, attachments }: Outgoing): Promise<MessageAccepted> {
  const ids = attachments.map(({ id }) => id);
  const body = { content, attachments: ids, idempotency_key: key, ...(target === null ? {} : { target_agent: target }) };
  const request = { path: { session_id: sessionId }, body };
  return (await call("POST /my/chat/{session_id}/message", request, { headers: { Prefer: "respond-async" } })) as MessageAccepted;
}

/** Return whether a problem is about the way to the server and not about the message. */
export function isPassing({ status, code }: Problem): boolean {
  return status === 0 || LATER.includes(code) || (code === "" && [502, 503, 504].includes(status));
}

function isOutgoing(value: unknown): value is Outgoing {
  const message = value as Partial<Outgoing> | null;
  return typeof message?.key === "string" && typeof message.content === "string" && Array.isArray(message.attachments) && typeof message.at === "string";
}
