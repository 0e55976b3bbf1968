// A plan of the orchestrator as a card: its tasks, its price, what the user is asked about it, and how it goes.

import { Problem, call, clock, copyOf, field, onSubmit, setProse } from "./basics.js";
import { setText } from "./text.js";
import { announcementOf, setVisible, visible, visibleNodes } from "./visible.js";

const OPEN = new Set(["planning", "awaiting_approval", "running"]);
const UNDONE = new Set(["partial", "failed", "cancelled", "timeout"]);
const STATES = {
  planning: "planning",
  awaiting_approval: "at work",
  running: "running",
  completed: "done",
  partial: "partly done",
  failed: "failed",
  rejected: "rejected",
  cancelled: "cancelled",
  timeout: "timed out",
};
const TASK_STATES = {
  pending: "not begun",
  running: "running",
  waiting: "waits for you",
  completed: "done",
  failed: "failed",
  aborted: "not done",
  cancelled: "cancelled",
  timeout: "took too long",
};

const LONG = 200; // characters that may not fit

export const isOver = ({ status }) => !OPEN.has(status);
/** Whether nobody decided in time: the same plan can be asked for again. */
const isExpired = ({ status, error_code }) => status === "timeout" && error_code === "approval_timeout";

// --- Figures ---------------------------------------------------------------------------------------------------------

const UNKNOWN = "price not known";

function usd(amount) {
  if (amount === null || amount === undefined) return UNKNOWN;
  if (amount > 0 && amount < 0.0001) return "under $0.0001";
  return `$${amount >= 0.1 ? amount.toFixed(2) : Number(amount.toPrecision(2))}`;
}

function timeOf(seconds) {
  if (!seconds) return "";
  return seconds < 90 ? `about ${Math.ceil(seconds)} s` : `about ${Math.ceil(seconds / 60)} min`;
}

/** Return an amount in cents, never less than it is: for what may be spent at most. */
function atMost(amount) {
  return amount < 0.01 ? usd(amount) : `$${(Math.ceil(amount * 100 - 1e-6) / 100).toFixed(2)}`;
}

/** Return the one price that is shown of a plan: "about $0.03, at most $0.10". */
function priceOf({ estimated_cost: about, estimated_cost_high: high }, unknown) {
  if (high === null) return "";
  if (about === null) {
    const models = unknown?.length ? ` for ${unknown.join(", ")}` : "";
    return `${UNKNOWN}${models}${high > 0 ? `, at most ${atMost(high)} for the rest` : ""}`;
  }
  if (high === 0) return "$0";
  return `about ${about < 0.01 ? usd(about) : `$${about.toFixed(2)}`}, at most ${atMost(high)}`;
}

function figuresOf(plan, asked) {
  const price = priceOf({ ...plan, ...(asked?.kind === "plan" ? asked.details : {}) }, asked?.details.unknown_prices);
  if (isOver(plan) && (plan.cost !== 0 || plan.status === "completed")) {
    const cost = plan.cost === null ? "Cost not known" : `Cost ${usd(plan.cost)}`;
    return [cost, price && `expected: ${price}`];
  }
  const agreed = plan.agreed_cost > 0 && !isOver(plan) && !asked ? `at most ${atMost(plan.agreed_cost)} agreed` : "";
  const expects = price && `${price[0].toUpperCase()}${price.slice(1)}`;
  return [expects, timeOf(plan.estimated_duration), agreed];
}

// --- The card --------------------------------------------------------------------------------------------------------

/**
 * Answer the card of a workflow. `agents` are the names that a task can be given to; `changed` is called after the user
 * has done something.
 */
export function planCard(id, agents, changed) {
  const item = copyOf("plan");
  Object.assign(item.dataset, { workflow: id, role: "plan" });
  const form = item.querySelector("form");
  const card = { item, form, id, agents, changed, plan: null, asked: null, shape: "" };
  const button = (name) => form.querySelector(`.${name}`);
  for (const choice of form.querySelectorAll("[type=submit]")) {
    choice.addEventListener("click", () => (form.dataset.decision = choice.value));
  }
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.localName === "input") event.preventDefault(); // it would approve
  });
  onSubmit(form, () => decide(card));
  button("change").addEventListener("click", () => edit(card, !isEdited(card)));
  onPress(card, button("cancel"), () => call("POST", `/my/workflows/${id}/cancel`));
  onPress(card, button("retry"), () => call("POST", `/my/workflows/${id}/retry`));
  onPress(card, button("again"), () => askAgain(id));
  return card;
}

/** Do something when a button is pressed, unless it is being done; the card says what goes wrong. */
function onPress(card, button, action) {
  const error = card.form.querySelector("[role=alert]");
  button.addEventListener("click", async () => {
    if (button.ariaDisabled === "true") return;
    button.ariaDisabled = "true";
    error.textContent = "";
    try {
      await action();
      card.changed();
    } catch (trouble) {
      setProse(error, trouble.message);
      if (!(trouble instanceof Problem)) throw trouble;
    } finally {
      button.ariaDisabled = "false";
    }
  });
}

async function decide(card) {
  const { form, asked } = card;
  const decision = form.dataset.decision ?? "approve";
  const { instruction, feedback } = form.elements;
  const approves = decision === "approve" && asked.kind === "plan";
  const tasks = approves && isEdited(card) ? changesOf(card) : [];
  await call("POST", `/my/approvals/${asked.id}/confirm`, {
    decision,
    feedback: decision === "reject" && asked.kind === "plan" ? feedback.value : "",
    instruction: approves ? instruction.value : "",
    changes: { tasks },
  });
  card.changed();
}

/** Ask about the same plan again: its question has expired, so that another page may not know it any more. */
async function askAgain(id) {
  const { items } = await call("GET", "/my/approvals?status=expired&limit=100");
  const expired = items.find(({ kind, arguments: asked }) => kind === "plan" && asked.workflow_id === id);
  await call("POST", expired ? `/my/approvals/${expired.id}/ask-again` : `/my/workflows/${id}/retry`);
}

// --- Changing a plan before it begins --------------------------------------------------------------------------------

const tasksOf = (card) => [...card.item.querySelectorAll(".task")];
const isEdited = (card) => card.item.classList.contains("edited");
const within = (root, name) => root.querySelector(`[name=${name}]`);

function edit(card, isOpen) {
  card.item.classList.toggle("edited", isOpen);
  card.form.querySelector(".change").textContent = isOpen ? "Change nothing" : "Change…";
  card.form.querySelector(".approve").textContent = isOpen ? "Approve with changes" : "Approve";
  for (const shown of tasksOf(card)) {
    const task = card.plan.tasks.find(({ id }) => id === shown.dataset.task);
    const names = [...new Set([...card.agents, task.agent])];
    within(shown, "agent").replaceChildren(...names.map((name) => new Option(visible(name, ""), name)));
    within(shown, "agent").value = task.agent;
    within(shown, "description").value = task.description;
    within(shown, "drop").checked = false;
    Object.assign(shown.querySelector(".edit"), { hidden: !isOpen, ariaLabel: `Change task ${task.id}` });
  }
  if (isOpen) card.item.querySelector(".task [name=agent]").focus();
}

function changesOf(card) {
  const changes = [];
  for (const shown of tasksOf(card)) {
    const task = card.plan.tasks.find(({ id }) => id === shown.dataset.task);
    const [agent, description] = [within(shown, "agent").value, within(shown, "description").value];
    if (within(shown, "drop").checked) changes.push({ id: task.id, drop: true });
    else if (agent !== task.agent || description !== task.description) {
      if (!description.trim()) throw new Problem(`Say what task ${task.id} is to do, or leave it out.`);
      changes.push({ id: task.id, agent, description });
    }
  }
  if (changes.filter(({ drop }) => drop).length === card.plan.tasks.length) {
    throw new Problem("Nothing would be left to do. Keep a task, or reject the plan.");
  }
  return changes;
}

// --- Drawing ---------------------------------------------------------------------------------------------------------

/** Show how a plan stands; `wordsOf` answers what a task has written so far. What did not change is left alone. */
export function draw(card, plan, asked, wordsOf) {
  const { item, form } = card;
  const isNew = !item.isConnected;
  const isOther = card.asked?.id !== asked?.id;
  Object.assign(card, { plan, asked });
  const isAlone = plan.tasks.length === 1 && !asked && !UNDONE.has(plan.status);
  item.dataset.turn = plan.turn_id;
  item.classList.toggle("alone", isAlone);
  const done = plan.tasks.filter(({ status }) => status === "completed").length;
  const state = asked ? "waits for you" : isExpired(plan) ? "not answered in time" : STATES[plan.status] ?? plan.status;
  field(item, "state").dataset.state = asked ? "waiting" : plan.status;
  put(item, {
    state,
    title: titleOf(plan, isAlone),
    figures: figuresOf(plan, asked).filter(Boolean).join(" · "),
    done: plan.started_at === null ? "Tasks" : `Tasks (${done} of ${plan.tasks.length} done)`,
  });
  const tasks = item.querySelector(".all");
  tasks.hidden = plan.tasks.length === 0;
  if (isNew) tasks.open = !isAlone && plan.status !== "completed";
  else if (asked && isOther) tasks.open = true;
  const texts = plan.tasks.flatMap(({ id, agent, description }) => [id, agent, description]);
  const warning = announcementOf("The plan", ...texts, ...(asked?.details.changed ?? []));
  put(item, { warning });
  field(item, "warning").hidden = !warning;
  drawTasks(card, wordsOf);
  if (isOther) drawQuestion(card);
  form.querySelector(".cancel").hidden = isOver(plan) || Boolean(asked) || isAlone;
  form.querySelector(".again").hidden = !isExpired(plan);
  form.querySelector(".retry").hidden = !UNDONE.has(plan.status) || isExpired(plan);
}

function titleOf({ tasks, status }, isAlone) {
  if (status === "planning") return tasks.length ? "Another plan is being made" : "A plan is being made";
  if (!tasks.length) return "No plan was made";
  return isAlone ? `A task for ${tasks[0].agent}` : `Plan: ${tasks.length} ${tasks.length === 1 ? "task" : "tasks"}`;
}

/** Fill in what is different: what stays may be selected, and must not flicker. */
function put(root, values) {
  for (const [name, value] of Object.entries(values)) setVisible(field(root, name), value);
}

/** Answer the tasks in levels: what is in one depends on nothing in it, so that it can be done at the same time. */
export function levelsOf(tasks) {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const levels = new Map();
  const levelOf = (task) => {
    if (!levels.has(task.id)) {
      levels.set(task.id, 0); // plans have no circles; if one had, this would end it
      const before = task.depends_on.map((id) => byId.get(id)).filter(Boolean);
      levels.set(task.id, Math.max(-1, ...before.map(levelOf)) + 1);
    }
    return levels.get(task.id);
  };
  const sorted = [];
  for (const task of tasks) (sorted[levelOf(task)] ??= []).push(task);
  return sorted.filter(Boolean);
}

function drawTasks(card, wordsOf) {
  const { item, plan } = card;
  const shape = JSON.stringify(plan.tasks.map(({ id, depends_on }) => [id, depends_on]));
  if (shape !== card.shape) {
    card.shape = shape;
    field(item, "levels").replaceChildren(...levelsOf(plan.tasks).map(levelItem));
  }
  for (const shown of tasksOf(card)) {
    const task = plan.tasks.find(({ id }) => id === shown.dataset.task);
    drawTask(shown, task, plan, wordsOf(task.id));
  }
}

function levelItem(tasks, place, levels) {
  const level = copyOf("plan-level");
  const together = tasks.length > 1 ? ", at the same time" : "";
  put(level, { step: `Step ${place + 1}${together}` });
  field(level, "step").hidden = levels.length === 1 && tasks.length === 1;
  for (const { id } of tasks) {
    const shown = copyOf("plan-task");
    shown.dataset.task = id;
    field(level, "tasks").append(shown);
  }
  return level;
}

function drawTask(shown, task, plan, words) {
  const state = task.tool && task.status === "running" ? `uses ${task.tool}` : TASK_STATES[task.status] ?? task.status;
  field(shown, "state").hidden = plan.started_at === null;
  shown.dataset.state = field(shown, "state").dataset.state = task.status;
  const after = task.depends_on.length ? `after ${task.depends_on.join(", ")}` : "";
  put(shown, {
    id: task.id,
    state,
    agent: task.agent,
    description: task.description,
    facts: [after, costOf(task)].filter(Boolean).join(" · "),
    error: (!["completed", "running"].includes(task.status) && task.error) || "",
  });
  if (task.description.length > LONG) field(shown, "description").tabIndex = 0; // so that keys can scroll it
  const text = task.result ?? words ?? "";
  const details = shown.querySelector("details");
  details.hidden = !text;
  const heading = task.result === null ? "What it writes" : "Result";
  put(shown, { heading });
  field(shown, "words").ariaLabel = `${heading} of task ${task.id}`;
  setText(field(shown, "words"), text);
}

function costOf({ status, cost, estimated_cost: expects }) {
  if (typeof cost === "number") return `${usd(cost)}${expects === null ? "" : `, expected ${usd(expects)}`}`;
  if (status === "completed" && cost === null) return "cost not known";
  return expects === null ? UNKNOWN : expects > 0 ? `about ${usd(expects)}` : "";
}

function drawQuestion(card) {
  const { item, form, asked } = card;
  const [ask, isPlan] = [item.querySelector(".ask"), asked?.kind === "plan"];
  ask.hidden = !asked;
  edit(card, false);
  form.reset();
  field(item, "changed").replaceChildren();
  if (!asked) return;
  const { details } = asked;
  for (const part of ask.querySelectorAll(".of-plan")) part.hidden = !isPlan;
  for (const part of ask.querySelectorAll(".of-budget")) part.hidden = isPlan;
  for (const text of details.changed ?? []) {
    const line = document.createElement("li");
    line.append(...visibleNodes(text));
    field(item, "changed").append(line);
  }
  item.querySelector(".changed").hidden = !details.changed?.length;
  field(item, "month").hidden = details.month_left === undefined;
  put(item, {
    month: `Of the project's month ${usd(details.month_left)} are left: the plan may end partly done.`,
    agreed: usd(details.agreed_cost),
    spent: usd(details.spent),
    wanted: usd(details.estimated_cost),
    until: `Answer until ${clock(asked.expires_at)}.${limitOf(asked)}`,
  });
}

/** Say what an approval allows to spend. */
function limitOf({ details: { estimated_cost_high: high } }) {
  return high > 0 ? ` Stops and asks at ${atMost(high)}.` : "";
}
