// Files that go with the next message.

import { useEffect, useRef, useState } from "react";
import { call, newKey } from "@/api/client";
import type { Attachment } from "@/api/types";
import { type DraftFile, readDraftFiles, storeDraftFiles } from "@/state/draftStore";
import { useT } from "@/ui/hooks";

const MAX_FILES = 10;
const MAX_BYTES = 10_000_000;

export function isImage({ mediaType }: DraftFile): boolean {
  return /^image\/(png|jpeg|gif|webp)$/.test(mediaType);
}

function draftOf(file: File): DraftFile {
  return { key: newKey(), name: file.name || "file", size: file.size, mediaType: file.type || "application/octet-stream", content: file, stored: null };
}

/** Return a file that is on the server already. */
export function draftOfStored(sessionId: string, attachment: Attachment): DraftFile {
  const { id, name, size, media_type: mediaType } = attachment;
  return { key: id, name, size, mediaType, content: null, stored: { sessionId, attachment } };
}

export interface DraftFiles {
  files: readonly DraftFile[];
  add: (files: readonly File[]) => void;
  addStored: (sessionId: string, attachments: readonly Attachment[]) => void;
  remove: (key: string) => void;
  clear: () => void;
  problem: string | null;
}

/** The files of a draft; they are there again after a reload. */
export function useDraftFiles(draft: string): DraftFiles {
  const t = useT();
  const [files, setFiles] = useState<readonly DraftFile[]>([]);
  const latest = useRef(files);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    let isLeft = false;
    void readDraftFiles(draft).then((kept) => {
      if (isLeft || !kept.length) return;
      latest.current = [...kept, ...latest.current];
      setFiles(latest.current);
    });
    return () => {
      isLeft = true;
    };
  }, [draft]);
  // What is seen is stored.
  const change = async (next: readonly DraftFile[]) => {
    latest.current = next;
    await storeDraftFiles(draft, next);
    setFiles(latest.current);
  };
  const add = (added: readonly File[]) => {
    const tooLarge = added.find(({ size }) => size > MAX_BYTES);
    const fitting = added.filter(({ size }) => size <= MAX_BYTES);
    const isTooMany = latest.current.length + fitting.length > MAX_FILES;
    setProblem(tooLarge ? t("chat.fileTooLarge", { name: tooLarge.name }) : isTooMany ? t("chat.tooManyFiles") : null);
    void change([...latest.current, ...fitting.map(draftOf)].slice(0, MAX_FILES));
  };
  return {
    files,
    add,
    addStored: (sessionId, attachments) => void change([...attachments.map((attachment) => draftOfStored(sessionId, attachment)), ...latest.current].slice(0, MAX_FILES)),
    remove: (key) => void change(latest.current.filter((file) => file.key !== key)),
    clear: () => {
      setFiles([]);
      void change([]);
    },
    problem,
  };
}

/** Put files on the server, and return them as attachments; what is there already is not sent again. */
export async function upload(sessionId: string, drafts: readonly DraftFile[]): Promise<Attachment[]> {
  const attachments: Attachment[] = [];
  for (const draft of drafts) {
    if (draft.stored?.sessionId !== sessionId && draft.content) {
      const raw = { content: draft.content, mediaType: draft.mediaType };
      const attachment = await call("POST /my/chat/{session_id}/attachments", { path: { session_id: sessionId }, query: { name: draft.name }, body: "" }, { raw, deadlineMs: 120_000 });
      draft.stored = { sessionId, attachment };
    }
    if (draft.stored?.sessionId === sessionId) attachments.push(draft.stored.attachment);
  }
  return attachments;
}
