// Talking to the agents of a project: its conversations, and the one that is open, live.

import { question, settle } from "./consent.js";
import { isOver } from "./plan_card.js";
import { Plans } from "./plans.js";
import { offerRating } from "./rating.js";
import { setText } from "./text.js";
import { changedFiles, endUndo, hasChanged, offerUndo } from "./undo.js";
import { setVisible, visible } from "./visible.js";
import { $, Problem, call, clock, copyOf, day, field, fill, follow, isBusy, onSubmit, setProse } from "./basics.js";

const NEW = "new"; // in the address, instead of a conversation's id
const LATEST = 20; // so many messages come with a conversation
const EARLIER = 50;
const LISTED = 100;
const TOLD_CHARACTERS = 1000;
const NEAR_PIXELS = 40;

const [list, log, text, to] = [$("messages"), $("log"), $("text"), $("to")];
const wide = matchMedia("(min-width: 48rem)");
const hasMouse = matchMedia("(hover: hover)");
const unsent = new Map(); // what was written and not sent, by conversation
const chosen = new Map(); // who was chosen to speak to, by project; before that, who has answered last

let project = null;
let talk = null; // the conversation that is open
let sendsWhenOpen = false; // Enter was pressed while the next conversation was on its way
let unsure = null; // a message that may have arrived, or not: sent again, it has the same key
let atEnd = true; // whether the reader sees the newest
let end = 0; // where that was, when we have last looked

class Talk {
  id = null; // none before the first message
  stop = new AbortController();
  turns = new Map(); // those that are not over, in order: { agent, tool }; without an agent it waits
  plans = new Plans(project.agents.map(({ name }) => name), { place: placePlan, stands, drawn: keepAtEnd, say });
  drafts = new Map(); // answers that are being written, by message id: { item, turn, n, text, frame }
  activity = new Map(); // what is on record besides messages, as far as it was looked at
  activityFrom = Infinity; // the number of the oldest thing on record that is shown
  isLooking = false; // at the record
  looksAgain = false;
  wrote = new Set(); // turns at work that have changed files
  changed = new Map(); // the files that ended turns have changed, by turn
  over = new Set(); // turns that have ended: what still comes of them is dropped
  pending = null; // what is being sent: { item, content }
  isReady = false; // whether it is known what was said before
  isWaiting = false; // for that, with something to send
  offline = false;
}

// --- Conversations ---------------------------------------------------------------------------------------------------

const addressOf = (id) => `#/projects/${project.id}/chat/${id}`;
const keyOf = (id) => `${project.id}/${id ?? NEW}`;
const linkTo = (id) => [...$("session-list").querySelectorAll("a")].find((link) => link.hash === addressOf(id));

/** Show the chat of a project: the conversation that is wanted, else the one that was used last. */
export async function open(opened, wanted, takesFocus) {
  project = opened;
  const mine = (talk = new Talk());
  mine.isWaiting = sendsWhenOpen;
  sendsWhenOpen = false;
  $("session-error").textContent = $("chat-news").textContent = $("session-title").textContent = "";
  $("new-session").href = addressOf(NEW);
  list.replaceChildren();
  $("earlier").hidden = $("no-messages").hidden = $("demo").hidden = true;
  fillAgents();
  fitList();
  showWork();
  try {
    const sessions = await sessionsOf(project.id);
    if (mine !== talk) return;
    $("session-list").replaceChildren(...sessions.map(sessionItem));
    showFiles(mine);
    const id = wanted === NEW ? null : (wanted ?? sessions[0]?.session_id ?? null);
    if (id && !wanted) history.replaceState(null, "", addressOf(id));
    if (id) await load(mine, id);
    else $("no-messages").hidden = false;
    if (mine !== talk) return;
    mark(id);
    mine.isReady = true;
    if (takesFocus && hasMouse.matches) text.focus();
    if (mine.isWaiting && text.value.trim()) compose.requestSubmit();
    else mine.isWaiting = false;
    text.value ||= unsent.get(keyOf(id)) ?? "";
  } catch (trouble) {
    if (mine !== talk) return;
    const gone = trouble.status === 404 || trouble.status === 422;
    const none = "There is no such conversation. Choose another, or begin a new one.";
    setProse($("session-error"), gone ? none : trouble.message);
    $("sessions").open = true;
    if (mine.isWaiting) complain("No conversation is open. Choose one, or begin a new one.");
    if (!(trouble instanceof Problem)) throw trouble;
  }
}

export function close() {
  sendsWhenOpen = false;
  if (!talk) return;
  if (text.value.trim()) unsent.set(keyOf(talk.id), text.value);
  else unsent.delete(keyOf(talk.id));
  text.value = "";
  talk.stop.abort();
  talk = null;
}

/** Leave nothing of what was said to whoever signs in next. */
export function forget() {
  close();
  unsent.clear();
  chosen.clear();
  project = unsure = null;
  for (const shown of [list, $("session-list"), $("session-title"), $("chat-news"), to]) shown.replaceChildren();
}

/** Return a project's newest conversations. */
const sessionsOf = async (id) => (await call("GET", `/my/chat/sessions?project_id=${id}&limit=${LISTED}`)).items;

function sessionItem({ session_id, title }) {
  const item = copyOf("session-item");
  fill(item, { title });
  field(item, "title").href = addressOf(session_id);
  return item;
}

function mark(id) {
  for (const link of $("session-list").querySelectorAll("a")) link.ariaCurrent = null;
  const link = id && linkTo(id);
  if (link) link.ariaCurrent = "true";
  $("session-title").textContent ||= link ? link.textContent : "New conversation";
}

function fitList() {
  $("sessions").open = wide.matches;
}

wide.addEventListener("change", fitList);

async function load(mine, id) {
  const session = await call("GET", `/my/chat/sessions/${encodeURIComponent(id)}`);
  if (session.project_id !== project.id) throw new Problem("", { status: 404 });
  mine.id = id;
  $("session-title").textContent = session.title;
  session.messages.forEach(add);
  $("earlier").hidden = session.messages.length < LATEST;
  $("no-messages").hidden = session.messages.length > 0;
  const answered = new Set(session.messages.filter(({ role }) => role !== "user").map(({ turn_id }) => turn_id));
  for (const { role, turn_id } of session.messages) {
    if (role === "user" && turn_id && !answered.has(turn_id)) mine.turns.set(turn_id, {});
  }
  toEnd();
  showWork();
  await showPlans(mine);
  if (mine !== talk) return;
  listen(mine, session.last_event);
  showQuestions(mine);
  showActivity(mine);
  showUndo(mine);
  lookUpTurns(mine, session.messages.findLast(({ role, turn_id }) => role === "assistant" && turn_id)?.turn_id);
}

/** Say whether the files of the project can be reached, now and later. */
async function showFiles(mine) {
  const place = `/my/projects/${project.id}`;
  const look = () =>
    quietly(async () => {
      const state = await call("GET", `${place}/connector`);
      if (mine === talk) $("files").replaceChildren(...filesOf(state));
    });
  follow(`${place}/events`, null, mine.stop.signal, (type) => {
    if (type.startsWith("connector_")) look();
  });
  await look();
}

/** Do something that the page can do without: what went wrong is said elsewhere. */
async function quietly(action) {
  try {
    await action();
  } catch (trouble) {
    if (!(trouble instanceof Problem)) throw trouble;
  }
}

function filesOf({ online, workspace_name, mode }) {
  const code = (text) => Object.assign(document.createElement("code"), { textContent: text });
  if (!online) {
    return ["No folder connected. In the folder, run ", code(`artel connect . --project ${project.id} --ask both`)];
  }
  const modes = {
    "read-only": "agents may only read",
    yes: "agents may write without asking",
    terminal: "writes are asked for in the terminal",
    browser: "writes are asked for here",
    both: "writes are asked for here and in the terminal",
  };
  return ["Files: ", code(visible(workspace_name, "")), `, ${modes[mode] ?? mode}`];
}

/** Show what is asked already. */
const showQuestions = (mine) =>
  quietly(async () => {
    const { items } = await call("GET", "/my/approvals?status=pending&limit=100");
    if (mine !== talk) return;
    const here = items.filter(({ session_id }) => session_id === mine.id);
    for (const approval of here.toReversed()) if (approval.kind === "tool") ask(approval); // plans ask on their cards
  });

/** Show what agents did and what was decided, as it is on record: the same words now and after a reload. */
const showActivity = (mine, isOlder = false) =>
  quietly(async () => {
    if (mine.isLooking && !isOlder) return (mine.looksAgain = true);
    mine.isLooking = true;
    try {
      const before = Math.max(0, mine.activityFrom - LISTED);
      const part = isOlder ? `limit=${LISTED}&offset=${before}` : `last=${LISTED}`;
      const { items, offset } = await call("GET", `/my/chat/${mine.id}/timeline?${part}`);
      if (mine !== talk) return;
      mine.activityFrom = Math.min(mine.activityFrom, offset);
      for (const item of items) mine.activity.set(item.id, item);
      for (const item of isOlder ? mine.activity.values() : items) showActed(item);
      keepAtEnd();
    } finally {
      mine.isLooking = false;
      if (mine.looksAgain && mine === talk) showActivity(mine);
      mine.looksAgain = false;
    }
  });

/** Show one thing that happened, after what happened before it in the same turn; messages and plans are shown as such. */
function showActed({ id, kind, at, turn_id, text, approval, tool_call, file_change }) {
  if (tool_call?.status === "sent" && talk.turns.has(turn_id)) return; // it may turn into a question
  const [moment, shown] = [Date.parse(at), [...list.children]];
  const known = shown.find(({ dataset: { acted, approval: of } }) => [acted, of].includes(id));
  if (known?.dataset.acted) setVisible(known, text, ""); // it may have ended since
  const before = shown.findLast(({ dataset: { turn, at: of } }) => turn === turn_id && Number(of) <= moment);
  if (known && file_change?.action === "undo" && endUndo(answerOf(turn_id), known)) talk.changed.delete(turn_id);
  if (!before || known) return;
  let item;
  if (["tool_call", "file_change"].includes(kind)) {
    item = Object.assign(document.createElement("li"), { className: "acted muted data" });
    setVisible(item, text, "");
    Object.assign(item.dataset, { acted: id, turn: turn_id });
  } else if (kind === "approval" && approval.kind === "tool" && approval.status !== "pending") {
    item = question({ ...approval, id, turn_id }, agentName(approval.agent_id));
    settle(item, approval.status);
  } else return;
  item.dataset.at = moment;
  before.after(item);
  if (file_change?.action === "undo" && endUndo(answerOf(turn_id), item)) talk.changed.delete(turn_id);
}

/** Show the plans that belong to what is shown of the conversation. */
const showPlans = (mine) =>
  quietly(async () => {
    const first = [...list.children].find((item) => item.dataset.at);
    await mine.plans.load(mine.id, Number(first?.dataset.at ?? Date.now()));
    mine.plans.arrange();
  });

/** Offer to put back what turns that are over have changed. */
const showUndo = (mine) =>
  quietly(async () => {
    const changed = await changedFiles(project.id, mine.id);
    if (mine !== talk) return;
    mine.changed = changed;
    offerUndos();
    keepAtEnd();
  });

function offerUndos() {
  for (const [turn, files] of talk.changed) {
    const item = talk.turns.has(turn) ? null : answerOf(turn);
    if (item) offerUndo(item, project.id, turn, files.size, () => showActivity(talk));
  }
}

function ask(approval) {
  if (questionCard(approval.id)) return;
  const item = question(approval, agentName(approval.agent_id));
  item.dataset.at = Date.parse(approval.created_at ?? approval.timestamp);
  const before = approval.turn_id && lastOf(approval.turn_id);
  if (before) before.after(item);
  else list.append(item);
  waits(approval.turn_id, true);
  say(`${item.querySelector(".by").textContent}?`);
}

const questionCard = (id) => [...list.children].find((item) => item.dataset.approval === id);

function waits(turn, isWaiting) {
  const known = talk.turns.get(turn) ?? {};
  if (!talk.over.has(turn)) talk.turns.set(turn, { ...known, isWaiting, isRunning: !isWaiting, isPlanning: false });
  showWork();
}

/** Put a plan before the answer that came of it, else after the question; one that is tried again comes last. */
function placePlan(item, plan) {
  const others = [...list.children].filter((one) => one !== item && one.dataset.turn === plan.turn_id);
  const answer = others.find(({ dataset: { role } }) => ["assistant", "system"].includes(role));
  if (answer) answer.before(item);
  else if (others.length) others.at(-1).after(item);
  else if (!isOver(plan)) list.append(item);
}

function stands(plan, asked) {
  if (isOver(plan) || talk.over.has(plan.turn_id)) return;
  if (asked) waits(plan.turn_id, true);
  else if (!talk.turns.has(plan.turn_id)) talk.turns.set(plan.turn_id, {});
  showWork();
}

function say(news) {
  $("chat-news").textContent = news.slice(0, TOLD_CHARACTERS);
}

/** Ask who is at work, and which model has answered last: that was told before we came. */
async function lookUpTurns(mine, last) {
  const look = async (id) => {
    const turn = await call("GET", `/my/chat/${mine.id}/turns/${id}`);
    if (mine !== talk) return;
    if (id === last) {
      showModel(turn.usage);
      if (!chosen.has(project.id)) to.value = turn.mode === "direct" ? (agentName(turn.agent_id) ?? "") : "";
    } else if (turn.status === "waiting") waits(id, true);
    else if (turn.finished_at === null && turn.started_at !== null) atWork(id, turn.agent_id);
  };
  const ids = [...mine.turns.keys(), ...(last ? [last] : [])];
  const looked = await Promise.allSettled(ids.map(look));
  for (const { reason } of looked) if (reason && !(reason instanceof Problem)) throw reason;
}

// --- Messages --------------------------------------------------------------------------------------------------------

const agentName = (id) => project.agents.find((agent) => agent.id === id)?.name;
const lastOf = (turn) => [...list.children].findLast((item) => item.dataset.turn === turn);
const answerOf = (turn) =>
  [...list.children].findLast(({ dataset: { turn: of, role } }) => of === turn && ["assistant", "system"].includes(role));
const questionOf = (turn) => [...list.children].find((item) => item.dataset.turn === turn && item.dataset.role === "user");

/** Add a message: an answer comes after its question, whatever was said meanwhile. */
function add({ content, ...message }) {
  const { turn_id } = message;
  const item = copyOf("message");
  const before = turn_id && lastOf(turn_id);
  if (before) before.after(item);
  else list.append(item);
  describe(item, message);
  setContent(item, message.role, content);
  $("no-messages").hidden = true;
  return item;
}

/** Show what a message says; a note of the server may name commands. */
function setContent(item, role, content) {
  const root = field(item, "text");
  if (role !== "system") return setText(root, content);
  const note = document.createElement("p");
  setProse(note, content);
  root.replaceChildren(note);
}

/** An answer comes after what was asked and done before it, as it is on record. */
function moveToEnd(item, turn) {
  const last = lastOf(turn);
  if (last && last !== item) last.after(item);
}

/** Return who a message is by; a note says what became of an answer. */
function byWhom({ role, agent, error_code, retry_of, turn_id }) {
  if (role === "assistant") return agent ?? "The team";
  if (role === "user") return retry_of ? "You, again" : "You";
  if (error_code === "cancelled") return "Stopped";
  const isOfTurn = ({ dataset: { turn, status } }) => turn === turn_id && status === "cut_off";
  return turn_id && [...list.children].some(isOfTurn) ? "Cut off" : "Not answered";
}

function describe(item, message) {
  const { id, turn_id, role, status, timestamp, feedback } = message;
  const today = timestamp && day(timestamp) === day(Date.now());
  const by = byWhom(message);
  Object.assign(item.dataset, { id: id ?? "", turn: turn_id ?? "", role, status: status ?? "ok" });
  if (["Stopped", "Cut off"].includes(by)) item.dataset.status = "stopped";
  if (role === "system" && turn_id && questionOf(turn_id)?.dataset.status !== "retried") offerAgain(item, turn_id);
  if (role === "assistant" && id) offerRating(item, talk.id, id, feedback);
  if (timestamp) item.dataset.at = Date.parse(timestamp);
  fill(item, { by, at: timestamp ? `${today ? "" : `${day(timestamp)}, `}${clock(timestamp)}` : "" });
}

/** Offer to send the message of a turn again. */
function offerAgain(item, turn) {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Again" });
  button.className = "quiet again";
  button.addEventListener("click", async () => {
    const mine = talk;
    button.disabled = true;
    complain("");
    try {
      const headers = { Prefer: "respond-async", "Idempotency-Key": newKey() };
      await call("POST", `/my/chat/${mine.id}/turns/${turn}/retry`, null, headers); // its event shows the message
      button.remove();
    } catch (trouble) {
      button.disabled = false;
      if (mine === talk) complain(advice(trouble));
      if (!(trouble instanceof Problem)) throw trouble;
    }
  });
  item.append(button);
}

const isNearEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_PIXELS;

function keepAtEnd() {
  if (log.scrollTop < end && !isNearEnd()) atEnd = false; // the reader has just gone up: the event comes later
  if (atEnd) toEnd();
}

function toEnd() {
  atEnd = true;
  log.scrollTop = log.scrollHeight;
  end = log.scrollTop;
}

log.addEventListener("scroll", () => {
  atEnd = isNearEnd();
  end = log.scrollTop;
});
new ResizeObserver(keepAtEnd).observe(log);

onSubmit($("earlier"), async () => {
  if (!talk) return;
  const shown = [...list.children].filter((item) => item.dataset.id).length;
  const path = `/my/chat/${talk.id}/messages`;
  const { total } = await call("GET", `${path}?last=1`);
  const end = Math.max(0, total - shown);
  const start = Math.max(0, end - EARLIER);
  const { items } = await call("GET", `${path}?limit=${EARLIER}&offset=${start}`);
  const known = new Set([...list.children].map((item) => item.dataset.id));
  const [first, height] = [list.firstElementChild, log.scrollHeight];
  const added = items.filter(({ id }) => !known.has(id)).map(add);
  for (const item of added) list.insertBefore(item, first);
  await showPlans(talk);
  await showActivity(talk, true);
  offerUndos();
  log.scrollTop += log.scrollHeight - height;
  $("earlier").hidden = start === 0;
  if (start === 0) added[0]?.focus({ preventScroll: true });
});

// --- What happens ----------------------------------------------------------------------------------------------------

function listen(mine, after) {
  const heard = (type, data) => {
    if (mine !== talk) return;
    happened[type]?.(data);
    keepAtEnd();
  };
  const line = (connected) => {
    if (mine === talk && connected) mine.plans.catchUp();
    if (mine !== talk || mine.offline === !connected) return;
    mine.offline = !connected;
    showWork();
  };
  follow(`/my/chat/${mine.id}/events`, after, mine.stop.signal, heard, line);
}

const happened = {
  message_created({ message_id, turn_id, role, content, timestamp, retry_of }) {
    for (const old of list.children) if (retry_of && old.dataset.turn === retry_of) old.querySelector(".again")?.remove();
    const sent = talk.pending?.content === content && !talk.pending.item.dataset.turn ? talk.pending.item : null;
    const item = questionOf(turn_id) ?? sent;
    if (item) describe(item, { id: message_id, turn_id, role, timestamp, retry_of });
    else add({ id: message_id, turn_id, role, content, timestamp, retry_of });
    item?.classList.remove("pending");
    if (!talk.turns.has(turn_id)) talk.turns.set(turn_id, {});
    showWork();
  },
  direct_agent_call: ({ turn_id, agent_id }) => atWork(turn_id, agent_id),
  task_plan_created: (created) => talk.plans.created(created),
  plan_request: ({ workflow_id }) => talk.plans.refresh(workflow_id),
  task_progress({ turn_id, task_id, workflow_id, state, phase }) {
    if (workflow_id && ["planning", "retry"].includes(phase)) talk.plans.refresh(workflow_id);
    else talk.plans.goesOn({ turn_id, task_id });
    runs(turn_id, { isRunning: state === "running", isPlanning: phase === "planning" });
  },
  task_started(started) {
    talk.plans.started(started);
    runs(started.turn_id, { isRunning: true, isPlanning: false });
  },
  task_completed: (completed) => talk.plans.completed(completed),
  task_failed: (failed) => talk.plans.failed(failed),
  task_cancelled: (cancelled) => talk.plans.cancelled(cancelled),
  message_delta: (piece) => talk.plans.writes(piece, false) || write(piece, false),
  message_snapshot: (piece) => talk.plans.writes(piece, true) || write(piece, true),
  tool_called(called) {
    talk.plans.uses(called, called.tool);
    useTool(called.turn_id, called.tool);
  },
  tool_result(result) {
    if (hasChanged(result.tool, result.success)) talk.wrote.add(result.turn_id);
    talk.plans.uses(result, null);
    useTool(result.turn_id, null);
    showActivity(talk);
  },
  tool_request({ approval_id, ...asked }) {
    talk.plans.waits(asked);
    ask({ ...asked, id: approval_id });
  },
  approval_resolved({ approval_id, decision, turn_id }) {
    settle(questionCard(approval_id), decision === "approve" ? "approved" : "rejected");
    waits(turn_id, false);
    talk.plans.changed(turn_id);
  },
  approval_timeout({ approval_id, turn_id }) {
    settle(questionCard(approval_id), "expired");
    waits(turn_id, false);
    talk.plans.changed(turn_id);
  },
  approval_timeout_warning({ seconds_left }) {
    say(`A question waits for your answer, for ${seconds_left} seconds more.`);
  },
  message_completed({ message_id, turn_id, content, agent_id, ...told }) {
    const drafts = [...talk.drafts].filter(([, draft]) => draft.turn === turn_id);
    const items = drafts.map(([, draft]) => draft.item);
    for (const [id, draft] of drafts) {
      cancelAnimationFrame(draft.frame);
      talk.drafts.delete(id);
    }
    talk.over.add(turn_id);
    const message = { ...told, id: message_id, turn_id, content, agent: agentName(agent_id) };
    const [item, ...others] = items;
    for (const other of others) other.remove();
    if (item) {
      item.ariaBusy = null;
      describe(item, message);
      setContent(item, message.role, content);
      moveToEnd(item, turn_id);
    } else add(message);
    if (told.status !== "cut_off") say(`${byWhom(message)}: ${content}`); // it was heard as it was written
  },
  turn_completed({ turn_id, usage }) {
    showModel(usage);
    ended(turn_id);
  },
  turn_failed: ({ turn_id }) => ended(turn_id),
  turn_cancelled: ({ turn_id }) => ended(turn_id),
};

/** Deltas are numbered by `n`; a snapshot is all that was written up to its `n`, which begins anew after a pause. */
function write({ message_id, turn_id, n, text: piece }, isWhole) {
  if (talk.over.has(turn_id)) return;
  let draft = talk.drafts.get(message_id);
  if (!draft) {
    const agent = agentName(talk.turns.get(turn_id)?.agent);
    const item = add({ id: "", turn_id, role: "assistant", content: "", agent });
    item.ariaBusy = "true";
    draft = { item, turn: turn_id, n: 0, text: "", frame: 0 };
    talk.drafts.set(message_id, draft);
  }
  if (n <= draft.n && !isWhole) return;
  moveToEnd(draft.item, turn_id);
  draft.n = n;
  draft.text = isWhole ? piece : draft.text + piece;
  draft.frame ||= requestAnimationFrame(() => {
    draft.frame = 0;
    setText(field(draft.item, "text"), draft.text);
    keepAtEnd();
  });
}

function atWork(turn, agent) {
  if (talk.over.has(turn)) return;
  talk.turns.set(turn, { ...talk.turns.get(turn), agent, isRunning: true });
  const name = agentName(agent);
  for (const draft of talk.drafts.values()) if (draft.turn === turn && name) fill(draft.item, { by: name });
  showWork();
}

function runs(turn, how) {
  if (!talk.over.has(turn)) talk.turns.set(turn, { ...talk.turns.get(turn), ...how });
  showWork();
}

function useTool(turn, tool) {
  const known = talk.turns.get(turn);
  if (known) known.tool = tool;
  showWork();
}

function ended(turn) {
  for (const { dataset } of [...list.children]) {
    if (dataset.turn === turn && dataset.approval) settle(questionCard(dataset.approval), "withdrawn");
  }
  if (!talk.plans.changed(turn) && talk.turns.get(turn)?.isPlanning) showPlans(talk); // it ended without a plan
  talk.over.add(turn);
  talk.turns.delete(turn);
  showActivity(talk);
  if (talk.wrote.delete(turn)) showUndo(talk);
  showWork();
}

function showWork() {
  const turns = [...talk.turns.values()];
  const running = turns.find(({ isRunning }) => isRunning);
  const asking = turns.find(({ isWaiting }) => isWaiting);
  const waiting = turns.length - (running ? 1 : 0) - (asking ? 1 : 0);
  const said = [];
  if (asking) said.push(`${agentName(asking.agent) ?? "The team"} waits for your answer`);
  const who = agentName(running?.agent) ?? "The team";
  if (running?.isPlanning) said.push(`${who} makes a plan`);
  else if (running) said.push(running.tool ? `${who} uses ${running.tool}` : `${who} is at work`);
  if (waiting) said.push(`${waiting} ${waiting === 1 ? "message waits" : "messages wait"}`);
  if (talk.offline) said.unshift("The connection is lost, trying again");
  $("working").textContent = said.length ? `${said.join(", ")}…` : "";
  $("working").classList.toggle("busy", Boolean(running));
  if (!turns.length && document.activeElement === $("stop")) text.focus();
  $("stop").hidden = !turns.length;
}

function showModel(usage) {
  if (usage?.model) $("demo").hidden = usage.model !== "demo";
}

$("stop").addEventListener("click", async () => {
  const mine = talk;
  if (!mine) return; // another is about to be shown
  const [id] = [...mine.turns].find(([, turn]) => turn.isRunning) ?? [...mine.turns][0] ?? [];
  if (!id || $("stop").ariaDisabled === "true") return;
  $("stop").ariaDisabled = "true";
  complain("");
  try {
    await call("POST", `/my/chat/${mine.id}/turns/${id}/cancel`);
  } catch (trouble) {
    if (mine === talk) complain(trouble.message);
    if (!(trouble instanceof Problem)) throw trouble;
  } finally {
    $("stop").ariaDisabled = "false";
  }
});

// --- Sending ---------------------------------------------------------------------------------------------------------

const compose = $("compose");
const complain = (what) => setProse(compose.querySelector("[role=alert]"), what);

function fillAgents() {
  const names = project.agents.map(({ name }) => name);
  to.replaceChildren(new Option("Let the team decide", ""), ...names.map((name) => new Option(name)));
  to.value = names.includes(chosen.get(project.id)) ? chosen.get(project.id) : "";
}

to.addEventListener("change", () => chosen.set(project.id, to.value));

text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  compose.requestSubmit();
});

compose.addEventListener("submit", async (event) => {
  event.preventDefault();
  const [mine, content, target] = [talk, text.value, to.value];
  if (!content.trim()) return;
  if (!mine) {
    sendsWhenOpen = true;
    return;
  }
  mine.isWaiting = !mine.isReady || isBusy(compose);
  if (mine.isWaiting) return;
  compose.ariaBusy = "true";
  complain("");
  text.value = "";
  text.focus();
  const item = add({ role: "user", content });
  item.classList.add("pending");
  mine.pending = { item, content };
  toEnd();
  try {
    if (!mine.id) await begin(mine, content);
    accepted(item, (await post(mine.id, content, target)).turn_id);
  } catch (trouble) {
    if (mine !== talk || item.dataset.turn) return; // gone elsewhere, or its event says that it is stored
    mine.isWaiting = false; // what was written since is not sent after a failure
    item.remove();
    $("no-messages").hidden = list.children.length > 0;
    text.value = text.value ? `${content}\n${text.value}` : content;
    complain(advice(trouble));
    if (!(trouble instanceof Problem)) throw trouble;
  } finally {
    mine.pending = null;
    compose.ariaBusy = "false";
    if (talk?.isReady && talk.isWaiting) compose.requestSubmit(); // pressed while this one was on its way
  }
});

/** Begin a conversation, which the first words name. */
async function begin(mine, content) {
  const line = content.trim().split("\n")[0].replace(/\p{Cc}+/gu, " ").trim();
  const title = [...line].slice(0, 80).join("") || "New conversation";
  const session = await call("POST", "/my/chat/sessions", { project_id: project.id, title });
  mine.id = session.session_id;
  history.replaceState(null, "", addressOf(mine.id));
  $("session-title").textContent = session.title;
  $("session-list").prepend(sessionItem(session));
  mark(mine.id);
  listen(mine, 0);
}

async function post(id, content, target) {
  const isAgain = unsure?.id === id && unsure.content === content && unsure.target === target;
  unsure = isAgain ? unsure : { id, content, target, key: newKey() };
  try {
    const body = { content, target_agent: target || null, idempotency_key: unsure.key };
    const answer = await call("POST", `/my/chat/${id}/message`, body, { Prefer: "respond-async" });
    unsure = null;
    return answer;
  } catch (trouble) {
    if ((trouble.status && trouble.status < 500) || trouble.status === 503) unsure = null; // refused: not stored
    throw trouble;
  }
}

/** `crypto.randomUUID` is missing where the page does not come over HTTPS. */
const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16)).join("-");

function accepted(item, turn) {
  item.classList.remove("pending");
  const other = questionOf(turn);
  if (other && other !== item) item.remove(); // its event was here first
  else item.dataset.turn = turn;
  if (!talk.over.has(turn) && !talk.turns.has(turn)) talk.turns.set(turn, {});
  const entry = linkTo(talk.id)?.closest("li");
  if (entry && entry !== entry.parentElement.firstElementChild) entry.parentElement.prepend(entry);
  showWork();
}

/** What went wrong, and what to do. */
function advice({ message, code, wait }) {
  if (code === "agent_not_found") return "This agent is not in the project any more. Choose another one.";
  if (code === "session_not_found") return "This conversation was deleted. Copy your text into a new one.";
  return wait && !message.includes("second") ? `${message} Try again in ${wait} seconds.` : message;
}
