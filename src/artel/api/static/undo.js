// Taking back what a turn has changed in the user's folder.

import { $, call, copyOf, field, fill, onSubmit } from "./basics.js";
import { visible } from "./visible.js";

const CHANGING = new Set(["tool_write_file", "tool_edit_file", "tool_delete_file"]);
const LOOKED_AT = 100; // so many of the newest calls
const NAMED = 5; // as many files are named
const STAYS = {
  changed_since: "was changed since, and stays",
  not_kept: "could not be kept, and stays",
  failed: "could not be put back",
};

/** Whether a call has changed files that can be put back. */
export const hasChanged = (tool, success) => success && CHANGING.has(tool);

/** Answer the files that turns of a conversation have changed, by turn, without what was put back since. */
export async function changedFiles(project, session) {
  const { items } = await call("GET", `/my/projects/${project}/audit?limit=${LOOKED_AT}`);
  const changed = new Map();
  for (const { tool, status, session_id, turn_id, arguments: given } of items.toReversed()) {
    if (session_id !== session || status !== "done") continue;
    if (tool === "undo" && !given.path) changed.delete(turn_id);
    else if (tool === "undo") changed.get(turn_id)?.delete(given.path);
    else if (CHANGING.has(tool)) changed.set(turn_id, (changed.get(turn_id) ?? new Set()).add(given.path));
  }
  return changed;
}

/** Offer, under an answer, to put back the files that its turn has changed. */
export function offerUndo(item, project, turn, count, undone) {
  if (!count || item.querySelector(".undo")) return;
  const form = copyOf("undo");
  const [ask, sure, keep] = [".ask", ".sure", ".keep"].map((name) => form.querySelector(name));
  const asked = `Put back ${count} ${count === 1 ? "file" : "files"}?`;
  const show = (isAsking) => {
    $("announcement").textContent = isAsking ? asked : "";
    ask.hidden = isAsking;
    sure.hidden = !isAsking;
    (isAsking ? sure.querySelector("[type=submit]") : ask).focus();
  };
  fill(form, { sure: asked });
  ask.addEventListener("click", () => show(true));
  keep.addEventListener("click", () => {
    form.querySelector("[role=alert]").textContent = "";
    show(false);
  });
  onSubmit(form, async () => {
    const { files } = await call("POST", `/my/projects/${project}/undo`, { turn_id: turn });
    const hadFocus = form.contains(document.activeElement);
    form.dataset.done = outcomeOf(files);
    fill(form, { outcome: form.dataset.done });
    ask.remove();
    sure.remove();
    if (hadFocus) field(form, "outcome").focus({ preventScroll: true });
    undone();
  });
  item.append(form);
}

/** Take away what an undo under an answer said, since a line that is on record says it; return whether it said so. */
export function endUndo(answer, line) {
  const form = answer?.querySelector(".undo[data-done]");
  if (!form) return false;
  const hadFocus = form.contains(document.activeElement);
  form.remove();
  line.tabIndex = -1;
  if (hadFocus) line.focus({ preventScroll: true });
  return true;
}

function outcomeOf(files) {
  const staying = files.filter(({ outcome }) => STAYS[outcome]);
  const back = files.filter(({ outcome }) => !STAYS[outcome]);
  const done = ({ outcome }) => (outcome === "removed" ? "removed" : "put back");
  const counts = new Map();
  for (const file of back) counts.set(done(file), (counts.get(done(file)) ?? 0) + 1);
  const said =
    back.length > NAMED
      ? [...counts].map(([what, count]) => `${count} ${count === 1 ? "file was" : "files were"} ${what}.`)
      : back.map((file) => `${visible(file.path, "")} was ${done(file)}.`);
  return said.concat(staying.map(({ path, outcome }) => `${visible(path, "")} ${STAYS[outcome]}.`)).join(" ");
}
