// Files of drafts, kept in the browser's database until they are sent: they survive a reload, also without a connection.

import type { Attachment } from "@/api/types";

const DATABASE = "artel.drafts";
const FILES = "files";

/** A file that goes with the next message: in the browser, on the server, or both. */
export interface DraftFile {
  key: string;
  name: string;
  size: number;
  mediaType: string;
  /** Null if only the server has it. */
  content: Blob | null;
  /** Set once it is on the server, with the conversation that it belongs to. */
  stored: { sessionId: string; attachment: Attachment } | null;
}

/** Return the files of a draft; none if the browser keeps nothing. */
export async function readDraftFiles(draft: string): Promise<readonly DraftFile[]> {
  try {
    const found: unknown = await run("readonly", (files) => files.get(draft));
    return Array.isArray(found) ? (found as DraftFile[]) : [];
  } catch {
    return [];
  }
}

export async function storeDraftFiles(draft: string, kept: readonly DraftFile[]): Promise<void> {
  try {
    await run("readwrite", (files) => (kept.length ? files.put(kept, draft) : files.delete(draft)));
  } catch {
    // A browser that stores nothing: they are there until the page is left.
  }
}

/** Forget the files of all drafts. */
export function forgetDraftFiles(): void {
  indexedDB.deleteDatabase(DATABASE);
}

async function run(mode: IDBTransactionMode, request: (files: IDBObjectStore) => IDBRequest): Promise<unknown> {
  const opening = indexedDB.open(DATABASE, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(FILES);
  const database = (await answer(opening)) as IDBDatabase;
  try {
    return await answer(request(database.transaction(FILES, mode).objectStore(FILES)));
  } finally {
    database.close();
  }
}

function answer(request: IDBRequest): Promise<unknown> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("The browser's database failed"));
  });
}
