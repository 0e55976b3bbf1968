// Files that go with the next message: kept in the browser until it is sent.

import { call } from "@/api/client";
import type { Attachment } from "@/api/types";

export const MAX_FILES = 10;
export const MAX_BYTES = 10_000_000;

export interface DraftFile {
  key: number;
  file: File;
  isImage: boolean;
  /** Set once it is on the server, with the conversation that it belongs to. */
  stored: { sessionId: string; attachment: Attachment } | null;
}

let number = 0;

export function draftFile(file: File): DraftFile {
  return { key: ++number, file, isImage: /^image\/(png|jpeg|gif|webp)$/.test(file.type), stored: null };
}

/** Put files on the server, and return them as attachments; what is there already is not sent again. */
export async function upload(sessionId: string, drafts: readonly DraftFile[]): Promise<Attachment[]> {
  const attachments: Attachment[] = [];
  for (const draft of drafts) {
    if (draft.stored?.sessionId !== sessionId) {
      const raw = { content: draft.file, mediaType: draft.file.type || "application/octet-stream" };
      const query = { name: draft.file.name || "file" };
      const attachment = await call("POST /my/chat/{session_id}/attachments", { path: { session_id: sessionId }, query, body: "" }, { raw, deadlineMs: 120_000 });
      draft.stored = { sessionId, attachment };
    }
    attachments.push(draft.stored.attachment);
  }
  return attachments;
}
