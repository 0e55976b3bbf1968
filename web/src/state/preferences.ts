// What this browser remembers about how the page looks. Nothing here is secret, and nothing is needed.

import { forgetDraftFiles } from "./draftStore";
import { createCell } from "./store";

export type Theme = "system" | "light" | "dark";

export interface Preferences {
  theme: Theme;
  /** null: the browser's. */
  language: string | null;
  /** Whether Enter sends, else Ctrl+Enter. */
  enterSends: boolean;
  listOpen: boolean;
  panelWidth: number;
  /** Step of the font size: -1, 0, 1, 2. */
  fontStep: number;
  notifications: boolean;
  /** Whether the user was asked about notifications. */
  notificationsAsked: boolean;
  lastProject: number | null;
  /** Diffs side by side. */
  diffSplit: boolean;
  diffWrap: boolean;
  /** Plans as a list, not as a graph. */
  planList: boolean;
  /** The first-run page was seen. */
  welcomed: boolean;
}

const KEY = "artel.preferences";
const DEFAULTS: Preferences = {
  theme: "system",
  language: null,
  enterSends: true,
  listOpen: true,
  panelWidth: 400,
  fontStep: 0,
  notifications: false,
  notificationsAsked: false,
  lastProject: null,
  diffSplit: false,
  diffWrap: true,
  planList: false,
  welcomed: false,
};

function read(): Preferences {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? "{}") as Record<string, unknown>;
    // Only fields of the right type: the storage may be of another version, or broken.
    const fitting = Object.entries(DEFAULTS).filter(([name, value]) => name in stored && (value === null || typeof stored[name] === typeof value));
    return { ...DEFAULTS, ...Object.fromEntries(fitting.map(([name]) => [name, stored[name]])) };
  } catch {
    return DEFAULTS;
  }
}

export const preferences = createCell<Preferences>(read());

export function setPreference<K extends keyof Preferences>(name: K, value: Preferences[K]): void {
  preferences.set((before) => ({ ...before, [name]: value }));
  try {
    localStorage.setItem(KEY, JSON.stringify(preferences.get()));
  } catch {
    // A browser that stores nothing: it is remembered until the page is left.
  }
}

// --- Drafts of messages, by conversation ---

const DRAFT = "artel.draft.";
const OWNER = "artel.draft-owner";

export function readDraft(key: string): string {
  try {
    return localStorage.getItem(DRAFT + key) ?? "";
  } catch {
    return "";
  }
}

export function storeDraft(key: string, text: string): void {
  try {
    if (text) localStorage.setItem(DRAFT + key, text);
    else localStorage.removeItem(DRAFT + key);
  } catch {
    // As above.
  }
}

// --- Messages that the server has not accepted yet, by conversation ---

const OUTBOX = "artel.outbox.";

export function readOutbox(sessionId: string): unknown[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(OUTBOX + sessionId) ?? "[]");
    return Array.isArray(stored) ? stored : [];
  } catch {
    return [];
  }
}

/** Return the conversations with messages that were not accepted. */
export function storedOutboxes(): string[] {
  try {
    return Object.keys(localStorage).flatMap((key) => (key.startsWith(OUTBOX) ? [key.slice(OUTBOX.length)] : []));
  } catch {
    return [];
  }
}

export function storeOutbox(sessionId: string, messages: readonly unknown[]): void {
  try {
    if (messages.length) localStorage.setItem(OUTBOX + sessionId, JSON.stringify(messages));
    else localStorage.removeItem(OUTBOX + sessionId);
  } catch {
    // As above: it is sent as long as the page is open.
  }
}

// --- Conversations that were begun without a connection ---

const BEGINNINGS = "artel.beginnings";

export function readBeginnings(): unknown[] {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(BEGINNINGS) ?? "[]");
    return Array.isArray(stored) ? stored : [];
  } catch {
    return [];
  }
}

export function storeBeginnings(waiting: readonly unknown[]): void {
  try {
    if (waiting.length) localStorage.setItem(BEGINNINGS, JSON.stringify(waiting));
    else localStorage.removeItem(BEGINNINGS);
  } catch {
    // As above: they are begun as long as the page is open.
  }
}

/** What the user has seen of what failed: see `missed.ts`. */
export const SEEN_FAILURES = "artel.seen-failures";

/** Take over what is stored for an account: what somebody else wrote in this browser is forgotten. */
export function claimDrafts(userId: number): void {
  try {
    if (localStorage.getItem(OWNER) === String(userId)) return;
    for (const key of Object.keys(localStorage)) if (key.startsWith(DRAFT) || key.startsWith(OUTBOX)) localStorage.removeItem(key);
    for (const key of [SEEN_FAILURES, BEGINNINGS]) localStorage.removeItem(key);
    forgetDraftFiles();
    localStorage.setItem(OWNER, String(userId));
  } catch {
    // As above.
  }
}
