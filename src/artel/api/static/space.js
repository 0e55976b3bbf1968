// The dashboard of a project's worker space: figures over time, health, alerts, and what every agent does.

import { $, Problem, call, clock, day, follow, setProse } from "./basics.js";

const REFRESH_SECONDS = 5;
const SOON_MILLISECONDS = 500; // after something happened: more may follow
const MAX_SEEN = 720;
const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [300, 80];
const STATUSES = { idle: "idle", processing: "at work", at_capacity: "at capacity", error: "in error" };
const CHARTS = [
  { title: "Tasks done", lines: { total_tasks_processed: "done" } },
  { title: "Tasks at work and waiting", lines: { active_tasks: "at work", queued_tasks: "waiting" } },
];

let project = null;
let watch = null; // aborted when the panel closes
let seen = []; // figures since then: the server keeps only some

export function open(opened) {
  project = opened;
  watch = new AbortController();
  seen = [];
  const { signal } = watch;
  $("statuses").replaceChildren(...project.agents.map(statusItem));
  let soon = 0;
  const lookOnce = () => {
    soon = 0;
    if (!signal.aborted) look(signal);
  };
  refresh(signal);
  follow(`/my/projects/${project.id}/events`, null, signal, (type, data) => {
    if (type === "agent_status_changed") showStatus(data.agent_id, data.new_status);
    soon ||= setTimeout(lookOnce, SOON_MILLISECONDS);
  });
}

export function close() {
  watch?.abort();
  watch = null;
  for (const id of ["figures", "charts", "statuses", "alert-list", "health-details", "health"]) $(id).replaceChildren();
}

/** Look again every few seconds, as long as somebody sees it. */
async function refresh(signal) {
  while (!signal.aborted) {
    if (!document.hidden) await look(signal);
    await new Promise((done) => setTimeout(done, REFRESH_SECONDS * 1000));
  }
}

async function look(signal) {
  const path = `/my/projects/${project.id}`;
  try {
    const asked = ["/space", "/space/health", "/alerts?limit=100"].map((what) => call("GET", path + what));
    const [figures, health, alerts] = await Promise.all(asked);
    await Promise.allSettled(agentsToAsk().map(askStatus)); // one may just have been deleted
    if (signal.aborted) return;
    $("space-error").textContent = "";
    showFigures(figures);
    showCharts(figures);
    showHealth(health);
    showAlerts(alerts.items.filter(({ resolved_at }) => resolved_at === null));
  } catch (trouble) {
    if (signal.aborted) return;
    setProse($("space-error"), trouble.message);
    if (!(trouble instanceof Problem)) throw trouble;
  }
}

// --- Figures ---------------------------------------------------------------------------------------------------------

function showFigures(figures) {
  const average = (milliseconds) => (milliseconds ? `${duration(milliseconds / 1000)} on average` : "");
  const shown = {
    "Active agents": [figures.active_agents],
    "Agents in the cache": [figures.cache_size],
    "Tasks at work": [figures.active_tasks],
    "Tasks waiting": [figures.queued_tasks],
    "Tasks done": [figures.total_tasks_processed],
    "Up for": [duration(figures.uptime)],
    "Sent to one agent": [figures.direct_calls_count, average(figures.direct_average_ms)],
    "Sent to the team": [figures.orchestrated_calls_count, average(figures.orchestrated_average_ms)],
  };
  const root = $("figures");
  while (root.children.length < Object.keys(shown).length) {
    root.append(made("div", {}, made("dt"), made("dd"), made("dd")));
  }
  for (const [place, [name, [value, more = ""]]] of Object.entries(shown).entries()) {
    const texts = [name, value, more];
    for (const [number, node] of [...root.children[place].children].entries()) {
      node.textContent = texts[number];
      node.hidden = texts[number] === "";
    }
  }
}

function duration(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 100) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 100 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// --- Charts ----------------------------------------------------------------------------------------------------------

function showCharts(figures) {
  seen.push({ ...figures, history: null, at: new Date().toISOString() });
  seen = seen.slice(-MAX_SEEN);
  const last = Date.parse(figures.history.at(-1)?.at ?? 0);
  const newer = seen.filter(({ at }, place) => place === seen.length - 1 || Date.parse(at) > last);
  const samples = [...figures.history, ...newer];
  $("charts").replaceChildren(...CHARTS.map((chart) => chartOf(chart, samples)));
}

function chartOf({ title, lines }, samples) {
  const times = samples.map(({ at }) => Date.parse(at));
  const [start, end] = [times[0], Math.max(times.at(-1), times[0] + 1)];
  const names = Object.keys(lines);
  const top = Math.max(1, ...samples.flatMap((sample) => names.map((name) => sample[name])));
  const now = names.map((name) => `${samples.at(-1)[name]} ${lines[name]}`).join(", ");
  const minutes = duration((end - start) / 1000);
  const label = `${title} in the last ${minutes}: ${now} now, ${top} at most`;
  const viewBox = `0 0 ${WIDTH} ${HEIGHT}`;
  const picture = drawn("svg", { viewBox, preserveAspectRatio: "none", role: "img", "aria-label": label });
  for (const [number, name] of names.entries()) {
    const x = (at) => ((at - start) / (end - start)) * WIDTH;
    const y = (value) => HEIGHT - 2 - (value / top) * (HEIGHT - 4);
    const points = samples.map((sample, place) => `${x(times[place]).toFixed(1)},${y(sample[name]).toFixed(1)}`);
    picture.append(drawn("polyline", { class: `line-${number}`, points: points.join(" ") }));
  }
  const keys = names.map((name, number) => {
    return made("span", { className: `key line-${number}`, textContent: `${samples.at(-1)[name]} ${lines[name]}` });
  });
  const span = (textContent) => made("span", { textContent });
  const scale = made("span", { className: "scale" }, span(top), span(0));
  scale.ariaHidden = "true";
  return made(
    "figure",
    {},
    made("figcaption", {}, made("strong", { textContent: title }), made("span", { className: "keys" }, ...keys)),
    made("div", { className: "plot" }, scale, picture),
    made("p", { className: "axis muted" }, span(`${minutes} ago`), span("now")),
  );
}

function drawn(name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

function made(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// --- Health and alerts -----------------------------------------------------------------------------------------------

/** The server names agents by their number. */
const named = (message) =>
  message.replace(/^Agent (\d+)\b/, (all, id) => project.agents.find((agent) => agent.id === Number(id))?.name ?? all);

function showHealth({ status, details, notes }) {
  $("health").textContent = status;
  $("health").dataset.state = status;
  const items = details.map(({ severity, message }) => point(severity, named(message)));
  update($("health-details"), [...items, ...notes.map((note) => point("note", note))]);
}

function showAlerts(alerts) {
  $("alert-count").textContent = alerts.length || "";
  $("no-alerts").hidden = alerts.length > 0;
  update($("alert-list"), alerts.map(({ severity, message, raised_at }) => point(severity, named(message), raised_at)));
}

function point(severity, message, since) {
  const item = made("li", {}, made("span", { className: "data", textContent: message }));
  item.dataset.severity = severity;
  if (since) item.append(" ", made("time", { className: "muted", dateTime: since, textContent: `since ${moment(since)}` }));
  return item;
}

const moment = (date) => (day(date) === day(Date.now()) ? clock(date) : `${day(date)}, ${clock(date)}`);

/** Change a list only when it reads differently, so that it is told once. */
function update(root, items) {
  if (root.textContent !== items.map((item) => item.textContent).join("")) root.replaceChildren(...items);
}

// --- Agents ----------------------------------------------------------------------------------------------------------

function statusItem({ id, name }) {
  const item = made("li", {}, made("span", { className: "data", textContent: name }), made("span", { className: "badge" }));
  item.dataset.agent = id;
  return item;
}

function showStatus(id, status) {
  const item = [...$("statuses").children].find((one) => one.dataset.agent === String(id));
  if (!item) return;
  item.dataset.status = status;
  item.lastElementChild.dataset.state = status;
  item.lastElementChild.textContent = STATUSES[status] ?? status;
}

/** Events tell when an agent begins and ends; that an error is forgiven after a while, nothing tells. */
function agentsToAsk() {
  const items = [...$("statuses").children].filter((item) => item.dataset.status !== "idle");
  return items.map((item) => item.dataset.agent);
}

async function askStatus(id) {
  const { status } = await call("GET", `/my/projects/${project.id}/agents/${id}/status`);
  showStatus(id, status);
}
