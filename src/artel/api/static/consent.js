// What the user is asked while a run waits for them, and their answer.

import { Problem, call, clock, copyOf, field, fill, onSubmit } from "./basics.js";
import { announcementOf, setVisible, visible, visibleNodes } from "./visible.js";

const WANTS = {
  tool_write_file: "wants to write",
  tool_edit_file: "wants to change",
  tool_delete_file: "wants to delete",
  tool_run_command: "wants to run",
};
const DONE = {
  tool_write_file: "written",
  tool_edit_file: "changed",
  tool_delete_file: "deleted",
  tool_run_command: "run",
};
const OUTCOMES = {
  approved: "You approved it.",
  used: "You approved it.",
  expired: "Nobody answered in time, so it was not done.",
  withdrawn: "No longer needed.",
};

/** Answer a card that asks; `agent` is who wants something. */
export function question(approval, agent) {
  const item = copyOf("question");
  const { id, turn_id, tool, arguments: given, details, expires_at } = approval;
  Object.assign(item.dataset, { approval: id, turn: turn_id, role: "question", tool });
  const what = WANTS[tool] ? String(given.path ?? given.name ?? JSON.stringify(given)) : "";
  const diff = details.diff ?? (WANTS[tool] ? whole(given) : listed(given));
  fill(item, { wants: WANTS[tool] ?? `wants to call ${visible(tool, "")} with`, until: `Answer until ${clock(expires_at)}.` });
  setVisible(field(item, "who"), agent ?? "An agent", "");
  setVisible(field(item, "what"), what, "");
  field(item, "what").hidden = !what;
  setVisible(field(item, "reason"), details.reason ?? "", "");
  const content = WANTS[tool] ? "The new content" : "The call";
  const shown = tool === "tool_run_command" ? "The command" : details.diff ? "The diff" : content;
  const hidden = [announcementOf("The name", what), announcementOf(shown, diff)];
  const warnings = [details.warning ?? "", details.notice ?? "", ...hidden].filter(Boolean);
  setVisible(field(item, "warning"), warnings.join("\n"));
  field(item, "warning").hidden = !warnings.length;
  if (details.diff === "") {
    const isSame = details.old_sha256 === details.new_sha256;
    fill(item, { reason: isSame ? `No change: ${visible(what, "")} already says this.` : `${visible(what, "")} is empty then.` });
  }
  showDiff(item, diff);
  const elsewhere = details.where === "terminal";
  item.querySelector(".holds").hidden = !details.grant || elsewhere;
  if (details.grant) {
    for (const name of ["session", "always"]) item.querySelector(`[value=${name}]`).append(` (${visible(details.grant, "")})`);
  }
  item.querySelector("[value=approve]").hidden = elsewhere;
  if (elsewhere) fill(item, { reason: "Answer in the terminal where the folder is connected. Here you can only refuse." });
  const form = item.querySelector("form");
  for (const button of form.querySelectorAll("button")) {
    button.addEventListener("click", () => (form.dataset.decision = button.value));
  }
  form.elements.feedback.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing || event.keyCode === 229) return;
    event.preventDefault(); // a form is sent by its first button, and that approves
    form.querySelector("[value=reject]").click();
  });
  onSubmit(form, async () => {
    const { holds, feedback } = form.elements;
    const decision = form.dataset.decision ?? "approve";
    const changes = { holds: item.querySelector(".holds").hidden ? "once" : holds.value };
    await call("POST", `/my/approvals/${id}/confirm`, { decision, feedback: feedback.value, changes });
    settle(item, decision === "approve" ? "approved" : "rejected");
  });
  return item;
}

/** Show what became of a question. */
export function settle(item, outcome) {
  const form = item?.querySelector("form");
  if (!form) return;
  const hadFocus = item.contains(document.activeElement);
  const said = document.createElement("p");
  said.textContent = outcome === "rejected" ? refusal(item.dataset.tool) : OUTCOMES[outcome] ?? outcome;
  for (const part of form.querySelectorAll(".field, .buttons, [data-field=until]")) part.remove();
  form.replaceWith(...form.childNodes, said);
  if (outcome === "expired") said.append(" ", askAgain(item.dataset.approval));
  if (hadFocus) item.focus({ preventScroll: true });
}

const refusal = (tool) => (DONE[tool] ? `You refused. Nothing was ${DONE[tool]}.` : "You refused. It was not done.");

function askAgain(id) {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Ask again" });
  button.className = "quiet";
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await call("POST", `/my/approvals/${id}/ask-again`); // its event shows the new question
      button.remove();
    } catch (trouble) {
      button.replaceWith(trouble.message);
      if (!(trouble instanceof Problem)) throw trouble;
    }
  });
  return button;
}

/** All arguments of a call, none of which may be left out; further lines of one are marked, or they might look like others. */
const listed = (given) =>
  Object.entries(given)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`.replaceAll("\n", "\n  | "))
    .join("\n");

function whole({ content, old, new: added }) {
  const lines = (text, mark) => (text ?? "").split("\n").map((line) => `${mark}${line}`).join("\n");
  if (content !== undefined) return lines(content, "+");
  return old === undefined ? "" : `${lines(old, "-")}\n${lines(added, "+")}`;
}

function showDiff(item, diff) {
  const shown = field(item, "diff");
  shown.hidden = !diff;
  for (const line of diff.replace(/\n$/, "").split("\n")) {
    const kind = { "+": "added", "-": "removed" }[line[0]] ?? "kept";
    const part = Object.assign(document.createElement("span"), { className: kind });
    part.append(...visibleNodes(`${line}\n`));
    shown.append(part);
  }
}
