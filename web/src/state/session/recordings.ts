// Streams that scripts/record_streams.py has recorded from a real server; for tests.

import type { SessionStreamItem } from "@/api/types";
import direct from "./recorded/direct.json";
import files from "./recorded/files.json";
import plan from "./recorded/plan.json";
import { reduceSession } from "./reducer";
import { type Entry, type SessionAction, type SessionState, type Snapshot, emptySession } from "./types";

export interface Recording {
  sessionId: string;
  events: SessionStreamItem[];
  /** What the server showed after so many events. */
  snapshots: { position: number; snapshot: Snapshot }[];
}

export const recordings = { direct, files, plan } as unknown as Record<"direct" | "files" | "plan", Recording>;

export function reduceAll(state: SessionState, actions: readonly SessionAction[]): SessionState {
  return actions.reduce(reduceSession, state);
}

/** Return the state after opening the conversation at a recorded moment and hearing the rest. */
export function openedAt(recording: Recording, place: number): SessionState {
  const { position, snapshot } = recording.snapshots.at(place) ?? { position: 0, snapshot: null };
  const empty = emptySession(recording.sessionId);
  const opened = snapshot ? reduceSession(empty, { type: "loaded", snapshot }) : empty;
  return settled(reduceAll(opened, recording.events.slice(position)), recording);
}

/** Return the state after hearing everything from the first event on. */
export function heardLive(recording: Recording): SessionState {
  return settled(reduceAll(emptySession(recording.sessionId), recording.events), recording);
}

/** Load the timeline, as the page does after the end of a turn. */
function settled(state: SessionState, { snapshots }: Recording): SessionState {
  const last = snapshots.at(-1)?.snapshot;
  return last ? reduceSession(state, { type: "timeline_loaded", page: last.timeline, asOf: state.lastEvent }) : state;
}

/** Return what of an entry a user can see: the same live and after a reload. */
export function shownOf(entry: Entry): unknown {
  const { id, kind, turn_id } = entry;
  switch (entry.kind) {
    case "message": {
      const { role, content, status, agent_id, retry_of } = entry.message;
      return { id, kind, turn_id, role, content, status, agent_id, retry_of };
    }
    case "approval": {
      const { tool, details, status } = entry.approval;
      return { id, kind, turn_id, tool, details, isApproved: ["approved", "used"].includes(status), status: status === "used" ? "approved" : status };
    }
    case "plan":
      return { id, kind, turn_id, tasks: entry.plan.tasks, done: entry.plan.tasks_done };
    case "notice":
      return { id, kind, turn_id, code: entry.notice.code };
    default:
      return { id, kind, turn_id, text: entry.text };
  }
}
