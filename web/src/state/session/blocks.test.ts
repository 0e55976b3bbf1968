import { describe, expect, test } from "vitest";
import type { ChatMessage, TimelineItem } from "@/api/types";
import { type Block, createBlocks, createWaiting } from "./blocks";
import { heardLive, openedAt, recordings } from "./recordings";
import { createRows } from "./rows";
import { type Entry, type OpenTurn, type SessionState, emptySession } from "./types";

const blocksIn = (state: SessionState): readonly Block[] => createBlocks(createRows())(state);
const kinds = (state: SessionState) => blocksIn(state).map(({ kind }) => kind);

let second = 0;
function item(kind: TimelineItem["kind"], turn: string, details: object, id = `${kind}${++second}`): Entry {
  const at = new Date(Date.UTC(2026, 0, 1, 10, 0, ++second)).toISOString();
  return { id, kind, at, turn_id: turn, text: "", [kind]: details } as unknown as Entry;
}
const said = (turn: string, role: string, change: Partial<ChatMessage> = {}, id?: string) =>
  item("message", turn, { role, content: `${role} of ${turn}`, status: "ok", attachments: [], ...change }, id);
const called = (turn: string) => item("tool_call", turn, { tool: "tool_read_file", arguments: {}, status: "done" });
const turn = (id: string, status: OpenTurn["status"], continues: string | null = null): OpenTurn => ({ id, status, agentId: 1, phase: null, startedAt: null, continues });

function stateOf(entries: readonly Entry[], turns: readonly OpenTurn[] = []): SessionState {
  const byId = <T extends { id: string }>(all: readonly T[]) => Object.fromEntries(all.map((each) => [each.id, each]));
  return { ...emptySession("s"), items: byId(entries), turns: byId(turns) };
}

describe.each(Object.entries(recordings))("the recorded stream %s", (_name, recording) => {
  test("has the same blocks live and after a reload", () => {
    expect(kinds(heardLive(recording))).toEqual(kinds(openedAt(recording, -1)));
  });
});

test("calls that follow each other are one line, and a question ends it", () => {
  const state = stateOf([said("t", "user"), called("t"), called("t"), item("approval", "t", { status: "rejected" }), called("t"), said("t", "assistant")]);
  expect(kinds(state)).toEqual(["user", "activity", "decision", "activity", "answer"]);
});

test("a change tells its decision, and a plan of one task is not shown", () => {
  const approval = item("approval", "t", { status: "used" }, "asked");
  const state = stateOf([said("t", "user"), item("plan", "t", { tasks: 1 }), approval, item("file_change", "t", { approval_id: "asked" })]);
  const [, change] = blocksIn(state);
  expect(kinds(state)).toEqual(["user", "change"]);
  expect(change?.kind === "change" && change.decision?.id).toBe("asked");
});

test("an answer and what continues it are one, also while it is written", () => {
  const asked = said("t1", "user");
  const cut = said("t1", "assistant", { status: "continued" }, "cut");
  const going = { ...stateOf([asked, cut], [turn("t2", "running", "cut")]), drafts: { more: { messageId: "more", turnId: "t2", taskId: null, n: 1, text: "…" } } };
  expect(kinds(going)).toEqual(["user", "answer"]);
  expect(blocksIn(going)[1]).toMatchObject({ draftId: "more", parts: [{ id: "cut" }] });
  const done = stateOf([asked, cut, said("t2", "assistant", { continues: "cut" }, "more")]);
  expect(blocksIn(done)[1]).toMatchObject({ draftId: null, parts: [{ id: "cut" }, { id: "more" }] });
});

test("what was sent again is folded", () => {
  const first = [said("t1", "user", { status: "retried" }), called("t1"), said("t1", "assistant", { status: "retried" })];
  const state = stateOf([...first, said("t2", "user", { retry_of: "t1" }), said("t2", "assistant")]);
  expect(kinds(state)).toEqual(["earlier", "user", "answer"]);
  expect(blocksIn(state)[0]).toMatchObject({ blocks: [{ kind: "user" }, { kind: "activity" }, { kind: "answer" }] });
});

test("messages behind another turn wait at the composer, and the next one does not", () => {
  const entries = [said("t1", "user"), said("t2", "user"), said("t3", "user")];
  const running = stateOf(entries, [turn("t1", "running"), turn("t2", "queued"), turn("t3", "queued")]);
  const waiting = (state: SessionState) => createWaiting()(state).messages.map(({ turn_id }) => turn_id);
  expect(kinds(running)).toEqual(["user"]);
  expect(waiting(running)).toEqual(["t2", "t3"]);
  const between = stateOf(entries, [turn("t2", "queued"), turn("t3", "queued")]);
  expect(kinds(between)).toEqual(["user", "user"]);
  expect(waiting(between)).toEqual(["t3"]);
});
