// The nodes of the operator, for administrators: who is alive, what each one does, and signals to them.

import { $, Problem, call, copyOf, field, fill, onSubmit, setProse, valuesOf } from "./basics.js";

const REFRESH_SECONDS = 5;
const PAGE_SIZE = 100;
const STATES = { ALIVE: "alive", NOT_READY: "not ready", OFFLINE: "offline" };

let watch = null; // aborted when the section closes
let selector = "";

export function open() {
  watch = new AbortController();
  selector = valuesOf($("node-filter")).selector;
  refresh(watch.signal);
}

export function close() {
  watch?.abort();
  watch = null;
  $("node-list").replaceChildren();
  $("node-count").textContent = "";
}

/** Look again every few seconds, as long as somebody sees it. */
async function refresh(signal) {
  while (!signal.aborted) {
    if (!document.hidden) await look(signal);
    await new Promise((done) => setTimeout(done, REFRESH_SECONDS * 1000));
  }
}

async function look(signal) {
  try {
    const { items, total } = await ask();
    if (signal.aborted) return;
    $("nodes-error").textContent = "";
    showNodes(items, total);
  } catch (trouble) {
    if (signal.aborted) return;
    setProse($("nodes-error"), trouble.message);
    if (!(trouble instanceof Problem)) throw trouble;
  }
}

/** Ask for a page of nodes; those that are alive and work are of interest, so one page is enough to see. */
export const ask = () => call("GET", `/nodes?limit=${PAGE_SIZE}&selector=${encodeURIComponent(selector)}`);

onSubmit($("node-filter"), async (form) => {
  const before = selector;
  selector = valuesOf(form).selector;
  try {
    const { items, total } = await ask();
    showNodes(items, total);
    $("nodes-error").textContent = "";
  } catch (trouble) {
    selector = before; // what is shown stays what it was
    throw trouble;
  }
});

/** Change the cards that are there, so that nothing loses the focus, and add and remove the others. */
function showNodes(nodes, total) {
  const list = $("node-list");
  const cards = new Map([...list.children].map((card) => [card.dataset.name, card]));
  const shown = nodes.map((node) => {
    const card = cards.get(node.name) ?? newCard(node.name);
    cards.delete(node.name);
    describe(card, node);
    return card;
  });
  for (const gone of cards.values()) gone.remove();
  shown.forEach((card, place) => list.children[place] === card || list.insertBefore(card, list.children[place] ?? null));
  $("node-count").textContent = total > nodes.length ? `${nodes.length} of ${total}` : total || "";
  $("no-nodes").hidden = total > 0 || Boolean(selector);
  $("no-such-nodes").hidden = total > 0 || !selector;
}

function newCard(name) {
  const card = copyOf("node-card");
  card.dataset.name = name;
  for (const button of card.querySelectorAll("[data-signal]")) {
    button.ariaLabel = `${button.textContent} ${name}`;
    button.addEventListener("click", () => confirm(card, button));
  }
  return card;
}

function describe(card, node) {
  const { name, node_type, model, state, phase, heartbeat_age, current_tasks, max_concurrent_tasks } = node;
  fill(card, {
    name: node.display_name,
    type: [name, node_type, model].filter((part) => part && part !== node.display_name).join(" · "),
    state: STATES[state],
    phase: phase === "Running" ? "" : phase.toLowerCase(),
    age: duration(heartbeat_age),
    load: `${current_tasks.length} of ${max_concurrent_tasks}`,
    done: node.tasks_processed,
    uptime: duration(node.uptime),
    memory: "memory_mb" in node.metrics ? `${Math.round(node.metrics.memory_mb)} MB` : "–",
  });
  field(card, "state").dataset.state = state;
  replaceTexts(field(card, "tasks"), current_tasks.map(taskText));
  field(card, "idle").hidden = current_tasks.length > 0;
  replaceTexts(field(card, "capabilities"), node.capabilities);
  replaceTexts(field(card, "labels"), Object.entries(node.labels).map(([key, value]) => `${key}=${value}`));
  const isRunning = phase === "Running";
  const shown = { pause: isRunning, resume: phase === "Paused", stop: current_tasks.length > 0, shutdown: phase !== "Draining" };
  for (const button of card.querySelectorAll("[data-signal]")) button.hidden = !shown[button.dataset.signal];
}

const taskText = ({ action, phase, elapsed_seconds, idle_seconds }) =>
  `${action}: ${phase}, for ${duration(elapsed_seconds)}, last moved ${duration(idle_seconds)} ago`;

function replaceTexts(list, texts) {
  if ([...list.children].map((item) => item.textContent).join("\n") === texts.join("\n")) return;
  list.replaceChildren(...texts.map((textContent) => Object.assign(document.createElement("li"), { textContent })));
}

function duration(seconds) {
  if (seconds < 100) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// --- Signals ---------------------------------------------------------------------------------------------------------

const QUESTIONS = {
  pause: ["Pause", "It takes no new tasks. Those that it has go on, and new ones wait."],
  resume: ["Resume", "It takes tasks again."],
  stop: ["Cancel the tasks of", "Everything that it works on now is cancelled. It goes on with other tasks."],
  shutdown: ["Drain", "It finishes its tasks, takes no new ones and ends. It has to be started again by hand."],
};

function confirm(card, button) {
  const { name } = card.dataset;
  const control_type = button.dataset.signal;
  const [verb, consequence] = QUESTIONS[control_type];
  const dialog = $("node-dialog");
  fill(dialog, { verb, name, consequence });
  dialog.querySelector("[role=alert]").textContent = "";
  dialog.action = async () => {
    await call("POST", `/nodes/${encodeURIComponent(name)}/control`, { control_type });
    if (watch) await look(watch.signal);
    return button.hidden ? field(card, "name") : button;
  };
  dialog.showModal();
}
