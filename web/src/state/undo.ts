// Undo and redo of what agents have changed in the connected folder.

import { call } from "@/api/client";
import type { UndoComparison, UndoneFile } from "@/api/types";

const DEADLINE_MS = 30_000; // the connector may take 25 s

export interface Undoing {
  projectId: number;
  turnId: string;
  /** null: all files of the turn. */
  path: string | null;
}

/** Put files back; one that was changed since only if it has the hash `ifMatch`. Return what became of each. */
export async function undoChanges({ projectId, turnId, path }: Undoing, ifMatch?: string): Promise<readonly UndoneFile[]> {
  const body = { turn_id: turnId, ...(path === null ? {} : { path }), ...(ifMatch === undefined ? {} : { if_match: ifMatch }) };
  return (await call("POST /my/projects/{project_id}/undo", { path: { project_id: projectId }, body }, { deadlineMs: DEADLINE_MS })).files;
}

/** Change files again that were put back. */
export async function redoChanges({ projectId, turnId, path }: Undoing): Promise<readonly UndoneFile[]> {
  const body = { turn_id: turnId, ...(path === null ? {} : { path }) };
  return (await call("POST /my/projects/{project_id}/redo", { path: { project_id: projectId }, body }, { deadlineMs: DEADLINE_MS })).files;
}

/** Return what putting a file back would change now. */
export function compareUndo({ projectId, turnId, path }: Undoing, signal: AbortSignal): Promise<UndoComparison> {
  const query = { turn_id: turnId, path: path ?? "" };
  return call("GET /my/projects/{project_id}/undo", { path: { project_id: projectId }, query }, { signal, deadlineMs: DEADLINE_MS });
}
