// What every part of the page uses: the API, streams of events, and small tools for the document.

const DEADLINE_SECONDS = 30;
const SILENT_SECONDS = 40; // the server sends a sign of life every 15 seconds
const HIDDEN_SECONDS = 60; // a tab that nobody looks at gives its connection back: browsers have only six
const MAX_WAIT_SECONDS = 15;

export const $ = (id) => document.getElementById(id);

/**
 * `round` grows when something else is to be shown: answers to earlier calls are of no use then.
 * `account` is whom the browser's cookie signs in.
 */
export const view = { round: 0, account: null, signOut: () => {} };

/** Something that is said to the user; without a text it needs no saying. */
export class Problem extends Error {
  constructor(text, { status = 0, code = "", wait = null } = {}) {
    super(text);
    Object.assign(this, { status, code, wait });
  }
}

// --- The API ---------------------------------------------------------------------------------------------------------

export async function call(method, path, body, headers = {}) {
  const [mine, account] = [view.round, view.account];
  headers = { ...headers };
  if (body && !(body instanceof URLSearchParams)) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(body);
  }
  let response, answer;
  try {
    const signal = AbortSignal.timeout(DEADLINE_SECONDS * 1000);
    response = await fetch(path, { method, headers, body, signal });
    answer = await response.text();
  } catch (failure) {
    const late = failure.name === "TimeoutError";
    const reason = late ? `did not answer within ${DEADLINE_SECONDS} seconds` : "can't be reached";
    throw new Problem(mine === view.round ? `The server ${reason}. See whether it is running, and try again.` : "");
  }
  if (mine !== view.round) throw new Problem("");
  if (response.ok) return answer ? JSON.parse(answer) : null;
  const problem = problemOf(response, answer);
  if (response.status !== 401 || !account || path === "/auth/browser") throw problem;
  view.signOut(`You were signed out: ${problem.message}`);
  throw new Problem("");
}

function problemOf(response, answer) {
  const status = response.status;
  const wait = response.headers.get("Retry-After");
  try {
    const { detail, code } = JSON.parse(answer);
    if (typeof detail === "string") return new Problem(detail, { status, code, wait });
  } catch {
    // Not from Artel, but from something on the way to it.
  }
  const when = wait ? `in ${wait} seconds` : "later";
  return new Problem(`The server answered with error ${status}. Try again ${when}.`, { status, wait });
}

/**
 * Follow a stream of events after a number until `signal` says stop; a line that drops is taken up where it was.
 * `heard` gets type and data, `line` whether there is a connection. (EventSource does not say why it was refused.)
 */
export async function follow(path, after, signal, heard, line = () => {}) {
  const place = { last: after };
  let wait = 1;
  while (!signal.aborted) {
    try {
      await read(path, place, signal, heard, () => {
        wait = 1;
        line(true);
      });
    } catch (failure) {
      if (signal.aborted) return;
      if (failure.status === 401) return view.signOut(`You were signed out: ${failure.message}`);
      if (failure.status === 404) return; // deleted: there is nothing to follow any more
      if (!(failure instanceof Problem || failure.name === "AbortError" || failure instanceof TypeError)) throw failure;
    }
    if (signal.aborted) return;
    if (document.hidden) await until(signal, document, "visibilitychange");
    else {
      line(false);
      await until(signal, window, "online", wait * (0.75 + Math.random() / 2));
      wait = Math.min(2 * wait, MAX_WAIT_SECONDS);
    }
  }
}

async function read(path, place, signal, heard, connected) {
  const stop = new AbortController();
  const end = () => stop.abort();
  let [silence, hidden] = [setTimeout(end, SILENT_SECONDS * 1000), 0];
  const look = () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(end, HIDDEN_SECONDS * 1000);
  };
  signal.addEventListener("abort", end);
  document.addEventListener("visibilitychange", look);
  try {
    const headers = place.last === null ? {} : { "Last-Event-ID": String(place.last) };
    const response = await fetch(path, { headers, signal: stop.signal });
    if (!response.ok) throw problemOf(response, await response.text());
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ; ) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return;
      clearTimeout(silence);
      silence = setTimeout(end, SILENT_SECONDS * 1000);
      connected();
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) tell(block, place, heard);
    }
  } finally {
    clearTimeout(silence);
    clearTimeout(hidden);
    signal.removeEventListener("abort", end);
    document.removeEventListener("visibilitychange", look);
    end();
  }
}

function tell(block, place, heard) {
  const lines = block.split("\n").map((line) => /^(\w+): ?(.*)$/s.exec(line)?.slice(1) ?? []);
  const { id, event, data } = Object.fromEntries(lines);
  if (id) place.last = Number(id);
  try {
    if (data) heard(event, JSON.parse(data));
  } catch (mistake) {
    reportError(mistake); // ours: the line is not to blame, and what comes next may be well
  }
}

/** Wait for an event, or so many seconds, or until told to stop. */
function until(signal, target, event, seconds) {
  return new Promise((done) => {
    const over = () => {
      clearTimeout(timer);
      for (const [where, what] of [[target, event], [signal, "abort"]]) where.removeEventListener(what, over);
      done();
    };
    const timer = seconds === undefined ? 0 : setTimeout(over, seconds * 1000);
    for (const [where, what] of [[target, event], [signal, "abort"]]) where.addEventListener(what, over);
  });
}

// --- The document ----------------------------------------------------------------------------------------------------

export const field = (root, name) => root.querySelector(`[data-field="${name}"]`);
export const copyOf = (template) => $(template).content.firstElementChild.cloneNode(true);
export const day = (date) => new Date(date).toLocaleDateString("en", { dateStyle: "medium" });
export const clock = (date) => new Date(date).toLocaleTimeString("en", { timeStyle: "short" });
export const isBusy = (form) => form.ariaBusy === "true";

export function fill(root, values) {
  for (const [name, value] of Object.entries(values)) field(root, name).textContent = value;
}

/** Show a text of the server in an element: what is between backticks as code, and nothing as HTML. */
export function setProse(element, text) {
  const parts = text.split(/`([^`\n]+)`/).map((part, place) => {
    return place % 2 ? Object.assign(document.createElement("code"), { textContent: part }) : part;
  });
  element.replaceChildren(...parts.filter((part) => part !== ""));
}

/** Run the action when the form is submitted: its button is busy then, and the form says what goes wrong. */
export function onSubmit(form, action) {
  const [error, button] = [form.querySelector("[role=alert]"), form.querySelector("[type=submit]")];
  const setBusy = (busy) => (form.ariaBusy = button.ariaDisabled = String(busy)); // `disabled` would lose the focus
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isBusy(form)) return;
    $("announcement").textContent = error.textContent = "";
    setBusy(true);
    try {
      await action(form);
      $("announcement").textContent = form.dataset.done ?? "";
    } catch (trouble) {
      setProse(error, trouble.message);
      error.scrollIntoView({ block: "nearest" });
      if (!(trouble instanceof Problem)) throw trouble;
    } finally {
      setBusy(false);
    }
  });
}

export function valuesOf(form) {
  const inputs = [...form.elements].filter((input) => input.name && !input.disabled);
  return Object.fromEntries(inputs.map((input) => [input.name, input.type === "number" ? input.valueAsNumber : input.value]));
}
