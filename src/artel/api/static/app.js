// The page at `/`. What users wrote reaches the document as text only, never as HTML.

import { $, Problem, call, clock, copyOf, day, field, fill, isBusy, onSubmit, setProse, valuesOf, view } from "./basics.js";
import * as chat from "./chat.js";
import * as nodes from "./nodes.js";
import * as space from "./space.js";

const PAGE_SIZE = 50;

let project = null; // the one that is open

function tidy() {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  for (const error of document.querySelectorAll(".error")) error.textContent = "";
}

function show(name, title, focused) {
  for (const section of document.querySelectorAll(".view")) section.hidden = section.id !== name;
  $("account").hidden = !view.account;
  $("nodes-link").hidden = !view.account?.is_admin;
  $("nodes-link").ariaCurrent = name === "nodes" ? "page" : null;
  document.title = `${title} – Artel`;
  focused?.focus();
}

// --- Signing in and out ----------------------------------------------------------------------------------------------

// Tabs share the cookie: when somebody else is signed in with it, no tab may go on showing the one before.
const tabs = new BroadcastChannel("artel");
tabs.addEventListener("message", ({ data }) => data !== (view.account?.user_id ?? null) && location.reload());

/** The link of `artel up` carries a code, or a token: it stays neither in the address bar nor in the history. */
function proofInAddress() {
  const found = new URLSearchParams(location.hash.slice(1));
  const name = ["code", "token"].find((one) => found.has(one));
  if (!name) return null;
  history.replaceState(null, "", location.pathname);
  return { [name]: found.get(name) };
}

async function signIn(proof) {
  const before = view.account?.user_id ?? null;
  view.account = await call("POST", "/auth/browser", proof);
  if (before !== view.account.user_id) tabs.postMessage(view.account.user_id);
}

/** Sign in by a link, after a question if somebody else is signed in; return what is wrong with the link, if anything. */
async function signInByLink(proof) {
  try {
    await signIn(proof).catch(async (trouble) => {
      if (trouble.code !== "other_account") throw trouble;
      if (await isAgreed(trouble.message)) await signIn({ ...proof, replace: true });
    });
  } catch (trouble) {
    if (![401, 403, 422].includes(trouble.status)) throw trouble;
    return trouble.message;
  }
  return "";
}

function isAgreed(question) {
  return new Promise((answer) => {
    fill($("replace-dialog"), { question });
    openDialog("replace-dialog", () => answer(true));
    $("replace-dialog").addEventListener("close", () => answer(false), { once: true });
  });
}

function signOut(reason, state = null) {
  view.round += 1;
  space.close();
  nodes.close();
  chat.forget();
  view.account = project = null;
  for (const form of document.forms) form.reset();
  for (const shown of document.querySelectorAll(".data, #project-list, #agent-list, #login-list")) shown.replaceChildren();
  setProse($("sign-in-reason"), reason);
  show("sign-in", "Sign in");
  setMode("known");
  offerAccount(state);
}

/** Offer to make an account where the server lets anybody do that. */
async function offerAccount(state) {
  $("register").hidden = true;
  try {
    const { registration_open } = state ?? (await call("GET", "/auth/browser"));
    $("register").hidden = !registration_open;
  } catch (trouble) {
    if (!(trouble instanceof Problem)) throw trouble; // whoever signs in is told
  }
}

view.signOut = signOut;

function setMode(mode) {
  tidy();
  $("sign-in-form").dataset.mode = mode;
  $("password").minLength = mode === "new" ? 8 : 0;
  $("password").autocomplete = mode === "new" ? "new-password" : "current-password";
  $("email").focus();
}

onSubmit($("sign-in-form"), async (form) => {
  const { email, password } = valuesOf(form);
  if (form.dataset.mode === "new") {
    const { access_token } = await call("POST", "/auth/register", { email, password });
    // The page needs no token: it ends before the cookie, because a login ends with the one that it was made from.
    await call("POST", "/auth/logout", null, { Authorization: `Bearer ${access_token}` });
  }
  await signIn({ email, password });
  form.reset();
  await route();
});

for (const button of $("sign-in-form").querySelectorAll("[data-mode]")) {
  button.addEventListener("click", () => isBusy($("sign-in-form")) || setMode(button.dataset.mode));
}

$("sign-out").addEventListener("click", async () => {
  try {
    await call("POST", "/auth/logout");
  } catch (trouble) {
    if (trouble.message) showTrouble(trouble);
    return;
  }
  history.replaceState(null, "", location.pathname);
  tabs.postMessage(null);
  signOut("You are signed out.");
});

$("open-account").addEventListener("click", async () => {
  const form = openDialog("account-dialog", () => call("POST", "/auth/password", valuesOf(form)));
  $("login-list").replaceChildren();
  try {
    const { items } = await call("GET", "/auth/sessions?limit=100");
    $("login-list").replaceChildren(...items.map(loginItem));
  } catch (trouble) {
    setProse(form.querySelector("[role=alert]"), trouble.message);
  }
});

function loginItem({ id, kind, label, last_used_at, is_current }) {
  const item = copyOf("login-item");
  fill(item, { label: label || kind, used: is_current ? "this browser" : `used ${day(last_used_at)} ${clock(last_used_at)}` });
  const button = item.querySelector("button");
  button.hidden = is_current;
  button.ariaLabel = `End ${label || kind}`;
  button.addEventListener("click", async () => {
    try {
      await call("DELETE", `/auth/sessions/${id}`);
      item.remove();
    } catch (trouble) {
      setProse($("account-dialog").querySelector("[role=alert]"), trouble.message);
    }
  });
  return item;
}

// --- What the address asks for ---------------------------------------------------------------------------------------

/** `#/projects/7` is the chat, `…/chat/ID` one conversation, `…/agents` the team, `…/space` the worker space. */
function placeOf(hash) {
  const found = /^#\/projects\/(\d+)(?:\/(chat|agents|space)(?:\/([\w-]+))?)?$/.exec(hash);
  return found && { id: Number(found[1]), tab: found[2] ?? "chat", session: found[3] };
}

async function route() {
  const proof = proofInAddress();
  tidy();
  const mine = ++view.round;
  const place = placeOf(location.hash);
  const isOpen = !$("project").hidden && project?.id === place?.id; // then it stays in sight
  chat.close();
  space.close();
  nodes.close();
  if (!isOpen) show("loading", "Loading…");
  try {
    const wrong = proof ? await signInByLink(proof) : "";
    if (!view.account) {
      const state = await call("GET", "/auth/browser");
      view.account = state.account;
      if (!view.account) return signOut(wrong, state);
    }
    const { email, user_id } = view.account;
    $("account-name").textContent = email ?? `User ${user_id}`;
    if (location.hash === "#/nodes") await showNodes();
    else if (place) showProject(await call("GET", `/my/projects/${place.id}`), place, isOpen);
    else showProjects(await call("GET", `/my/projects?limit=${PAGE_SIZE}`));
  } catch (trouble) {
    if (mine === view.round) showTrouble(trouble);
  }
}

async function showNodes() {
  await nodes.ask(); // so that who may not see them is told before anything is shown
  show("nodes", "Nodes", $("nodes-title"));
  nodes.open();
}

function showTrouble(trouble) {
  setProse($("trouble-detail"), trouble.message);
  show("trouble", "Trouble", $("trouble-title"));
  if (!(trouble instanceof Problem)) throw trouble;
}

addEventListener("hashchange", route);
$("try-again").addEventListener("click", route);

// --- Projects --------------------------------------------------------------------------------------------------------

function showProjects(page) {
  $("project-list").replaceChildren();
  addProjects(page);
  $("no-projects").hidden = page.total > 0;
  show("projects", "Projects", $("projects-title"));
}

function addProjects({ items, total }) {
  const list = $("project-list");
  for (const { id, name, is_default, created_at } of items) {
    const item = copyOf("project-item");
    fill(item, { name, since: day(created_at) });
    field(item, "name").href = `#/projects/${id}`;
    field(item, "default").hidden = !is_default;
    list.append(item);
  }
  $("more").hidden = items.length === 0 || list.children.length >= total;
  $("more-count").textContent = `${list.children.length} of ${total}`;
}

onSubmit($("more"), async () => {
  const shown = $("project-list").children.length;
  addProjects(await call("GET", `/my/projects?limit=${PAGE_SIZE}&offset=${shown}`));
  $("project-list").children[shown]?.querySelector("a").focus();
});

onSubmit($("create-form"), async (form) => {
  const { id } = await call("POST", "/my/projects", valuesOf(form));
  form.reset();
  location.hash = `#/projects/${id}`;
});

function showProject(opened, { tab, session }, isOpen) {
  project = opened;
  describeProject();
  for (const link of document.querySelectorAll("#tabs a")) {
    link.href = `#/projects/${project.id}${link.dataset.tab === "chat" ? "" : `/${link.dataset.tab}`}`;
    link.ariaCurrent = link.dataset.tab === tab ? "page" : null;
  }
  for (const panel of document.querySelectorAll("[data-panel]")) panel.hidden = panel.dataset.panel !== tab;
  show("project", project.name, isOpen ? null : $("project-name"));
  if (tab === "agents") showAgents();
  if (tab === "chat") chat.open(project, session, isOpen && Boolean(session));
  if (tab === "space") space.open(project);
}

function describeProject() {
  fill($("project"), { name: project.name, id: project.id, since: day(project.created_at) });
}

$("rename-project").addEventListener("click", () => {
  const form = openDialog("rename-dialog", async () => {
    project = await call("PATCH", `/my/projects/${project.id}`, valuesOf(form));
    describeProject();
    show("project", project.name);
  });
  form.elements.name.value = project.name;
  form.elements.name.select();
});

$("delete-project").addEventListener("click", () => {
  const consequence = "Its agents are deleted with it. Your files are not touched. This can't be undone.";
  confirmDelete("the project", project.name, consequence, async () => {
    await call("DELETE", `/my/projects/${project.id}`);
    history.replaceState(null, "", "#/");
    await route();
  });
});

// --- Agents ----------------------------------------------------------------------------------------------------------

const agentsPath = () => `/my/projects/${project.id}/agents`;

function showAgents() {
  $("agent-list").replaceChildren(...project.agents.map(cardOf));
  countAgents();
}

function countAgents() {
  const count = $("agent-list").children.length;
  fill($("project"), { count });
  $("no-agents").hidden = count > 0;
}

function cardOf(agent) {
  const card = copyOf("agent-card");
  const { name, role, model, temperature, max_tokens, concurrency_limit, system_prompt, memory, runtime, tools } = agent;
  fill(card, { name, role, model, temperature, max_tokens, concurrency_limit, system_prompt, tool_count: tools.length });
  fill(card, { letter: [...role.trim()][0]?.toUpperCase() ?? "?", memory: memory ? "yes" : "no", runtime });
  for (const tool of tools) field(card, "tools").appendChild(document.createElement("li")).textContent = tool;
  for (const [action, run] of Object.entries({ edit: editAgent, delete: deleteAgent })) {
    const button = card.querySelector(`[data-action=${action}]`);
    button.ariaLabel = `${button.textContent} ${name}`;
    button.addEventListener("click", () => run(agent, card));
  }
  return card;
}

function openAgentDialog(agent, action) {
  const form = openDialog("agent-dialog", action);
  $("agent-title").textContent = agent ? `Edit ${agent.name}` : "Add an agent";
  form.elements.name.disabled = $("agent-name-field").hidden = Boolean(agent);
  form.elements.system_prompt.required = !agent; // the server takes an empty one, too
  for (const name of Object.keys(agent ? valuesOf(form) : {})) form.elements[name].value = agent[name];
  form.elements[agent ? "role" : "name"].focus();
  return form;
}

$("add-agent").addEventListener("click", () => {
  const form = openAgentDialog(null, async () => {
    const card = cardOf(await call("POST", agentsPath(), valuesOf(form)));
    $("agent-list").append(card);
    countAgents();
    return field(card, "name");
  });
});

function editAgent(agent, card) {
  const form = openAgentDialog(agent, async () => {
    // Only what was changed here, so that what somebody else changes meanwhile stays.
    const changes = Object.entries(valuesOf(form)).filter(([name, value]) => value !== before[name]);
    const changed = cardOf(await call("PATCH", `${agentsPath()}/${agent.id}`, Object.fromEntries(changes)));
    card.replaceWith(changed);
    return changed.querySelector("[data-action=edit]");
  });
  const before = valuesOf(form);
}

function deleteAgent(agent, card) {
  const consequence = "Agents that it has created are deleted with it. This can't be undone.";
  confirmDelete("the agent", agent.name, consequence, async () => {
    await call("DELETE", `${agentsPath()}/${agent.id}`);
    const place = [...$("agent-list").children].indexOf(card);
    project = await call("GET", `/my/projects/${project.id}`);
    showAgents();
    const cards = $("agent-list").children;
    return cards.length ? field(cards[Math.min(place, cards.length - 1)], "name") : $("add-agent");
  });
}

// --- Dialogs ---------------------------------------------------------------------------------------------------------

/** Open a dialog; `action` runs when it is submitted, and answers what gets the focus afterwards. */
function openDialog(id, action) {
  tidy();
  const form = $(id).querySelector("form");
  form.reset();
  $(id).action = action;
  $(id).showModal();
  return form;
}

function confirmDelete(kind, name, consequence, action) {
  fill($("delete-dialog"), { kind, name, consequence });
  openDialog("delete-dialog", action);
}

for (const dialog of document.querySelectorAll("dialog")) {
  const form = dialog.querySelector("form");
  onSubmit(form, async () => {
    const focused = await dialog.action();
    dialog.close();
    focused?.focus();
  });
  dialog.querySelector("[data-close]").addEventListener("click", () => isBusy(form) || dialog.close());
  dialog.addEventListener("cancel", (event) => isBusy(form) && event.preventDefault());
}

await route();
