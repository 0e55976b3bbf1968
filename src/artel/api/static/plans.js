// The plans of a conversation: which there are, how they stand, what their tasks write.
//
// The server's word on a workflow is the truth. Events change what is shown at once, and say when to ask again.

import { Problem, call } from "./basics.js";
import { draw, isOver, planCard } from "./plan_card.js";

const PAGE_SIZE = 20;
const CANCELS = "budget_exceeded";

export class Plans {
  cards = new Map(); // by workflow
  words = new Map(); // what tasks write, by turn and task: { message, n, text }
  alone = new Set(); // turns whose plan has one task: what that writes is the answer

  /**
   * `agents` are the names that tasks can be given to; `place` puts a card into the document, `stands` is told how a
   * workflow stands, `drawn` that a card may have another size, `say` what those should hear who don't see it.
   */
  constructor(agents, { place, stands, drawn, say }) {
    Object.assign(this, { agents, place, stands, drawn, say });
  }

  /** Show those of a conversation that were made since then. */
  async load(session, since) {
    for (let offset = 0; ; offset += PAGE_SIZE) {
      const query = new URLSearchParams({ session_id: session, limit: PAGE_SIZE, offset });
      const { items, total } = await call("GET", `/my/workflows?${query}`);
      for (const plan of items.toReversed()) {
        if (!isOver(plan)) await this.refresh(plan.id); // the list does not say what is asked, and is old soon
        else if (this.cards.get(plan.id)?.plan?.turn_id !== plan.turn_id) this.#show(this.#card(plan.id), plan, null);
      }
      if (offset + PAGE_SIZE >= total || Date.parse(items.at(-1).created_at) < since) return;
    }
  }

  /** Put every card where it belongs: more of the conversation is shown now. */
  arrange() {
    for (const card of this.cards.values()) if (card.plan) this.#place(card, card.plan.turn_id);
  }

  /** Ask how a workflow stands; once more if something happens meanwhile. */
  async refresh(id) {
    const card = this.#card(id);
    card.isBehind = true;
    if (card.isLoading) return;
    card.isLoading = true;
    try {
      while (card.isBehind) {
        card.isBehind = false;
        const plan = await call("GET", `/my/workflows/${id}`);
        const asks = plan.status === "awaiting_approval" && plan.approval_id;
        const asked = asks ? await call("GET", `/my/approvals/${plan.approval_id}`) : null;
        if (!card.isBehind) this.#show(card, plan, asked?.status === "pending" && asked.kind !== "tool" ? asked : null);
      }
    } catch (trouble) {
      card.isBehind = trouble.status !== 404; // `catchUp` tries again, unless it was deleted
      if (!(trouble instanceof Problem)) throw trouble;
    } finally {
      card.isLoading = false;
    }
  }

  /** Ask again what could not be asked. */
  catchUp() {
    for (const { id, isBehind, isLoading } of this.cards.values()) if (isBehind && !isLoading) this.refresh(id);
  }

  // --- What happens ---

  created({ workflow_id, turn_id, tasks }) {
    this.#count(turn_id, tasks);
    this.refresh(workflow_id);
  }

  /** Ask again about the workflow of a turn. */
  changed(turn) {
    this.#hasHappened();
    const card = this.#ofTurn(turn);
    if (card) this.refresh(card.id);
    return Boolean(card);
  }

  started({ turn_id, task_id }) {
    const task = this.#setTask(turn_id, task_id, { status: "running", error: null });
    if (task && this.#ofTurn(turn_id).plan.status !== "running") this.changed(turn_id); // it has begun since we asked
  }

  completed({ turn_id, task_id, result }) {
    this.#setTask(turn_id, task_id, { status: "completed", result, error: null, cost: undefined }); // not told yet
  }

  failed({ turn_id, task_id, code, error }) {
    const status = { dependency_failed: "aborted", timeout: "timeout", [CANCELS]: "cancelled" }[code] ?? "failed";
    const task = this.#setTask(turn_id, task_id, { status, error });
    if (task && status === "failed") this.say(`Task ${task_id} of ${task.agent} failed: ${error}`);
  }

  cancelled({ turn_id, task_id }) {
    this.#setTask(turn_id, task_id, { status: "cancelled" });
  }

  waits({ turn_id, task_id }) {
    this.#setTask(turn_id, task_id, { status: "waiting" });
  }

  uses({ turn_id, task_id }, tool) {
    this.#setTask(turn_id, task_id, { status: "running", tool });
  }

  /** A task goes on; of one that has ended this is old news. */
  goesOn({ turn_id, task_id }) {
    const task = this.#ofTurn(turn_id)?.plan.tasks.find(({ id }) => id === task_id);
    if (task?.status === "waiting") this.#setTask(turn_id, task_id, { status: "running" });
    else this.#hasHappened();
  }

  /** Take words that a task writes, numbered as those of answers; say whether they are a task's, not the answer's. */
  writes({ turn_id, task_id, message_id, n, text }, isWhole) {
    if (!task_id || task_id === turn_id || this.alone.has(turn_id)) return false;
    const key = `${turn_id}/${task_id}`;
    let written = this.words.get(key);
    if (written?.message !== message_id) this.words.set(key, (written = { message: message_id, n: 0, text: "" }));
    if (n <= written.n && !isWhole) return true;
    Object.assign(written, { n, text: isWhole ? text : written.text + text });
    const card = this.#ofTurn(turn_id);
    if (card) this.#draw(card);
    return true;
  }

  // --- Help ---

  #card(id) {
    if (!this.cards.has(id)) {
      this.cards.set(id, planCard(id, this.agents, () => this.refresh(id)));
    }
    return this.cards.get(id);
  }

  #ofTurn(turn) {
    return [...this.cards.values()].find(({ plan }) => plan?.turn_id === turn);
  }

  /** Another plan in the same turn may have more tasks, or fewer. */
  #count(turn, tasks) {
    if (tasks.length === 1) this.alone.add(turn);
    else this.alone.delete(turn);
  }

  /** What is being loaded may be older than what has just happened. */
  #hasHappened() {
    for (const card of this.cards.values()) if (card.isLoading) card.isBehind = true;
  }

  #setTask(turn, id, values) {
    this.#hasHappened();
    const card = this.#ofTurn(turn);
    const task = card?.plan.tasks.find((one) => one.id === id);
    if (!task) return null;
    Object.assign(task, { tool: null, ...values });
    this.#draw(card);
    return task;
  }

  #show(card, plan, asked) {
    const { item, plan: before, asked: askedBefore } = card;
    const hadFocus = item.contains(document.activeElement);
    this.#count(plan.turn_id, plan.tasks);
    if (isOver(plan)) for (const { id } of plan.tasks) this.words.delete(`${plan.turn_id}/${id}`);
    this.#drawNow(card, plan, asked);
    this.#place(card, before?.turn_id);
    if (hadFocus) keepFocus(item);
    this.stands(plan, asked);
    if (asked && asked.id !== askedBefore?.id) this.say(newsOf(plan, asked));
    this.drawn();
  }

  /** Put a card where it belongs, once there is something to show, and again when another turn goes on with it. */
  #place({ item, plan }, turn) {
    const hasContent = plan.tasks.length > 0 || isOver(plan);
    if (item.isConnected ? turn !== plan.turn_id : hasContent) this.place(item, plan);
  }

  /** Draw once for all that happens until the next picture. */
  #draw(card) {
    card.frame ||= requestAnimationFrame(() => {
      card.frame = 0;
      this.#drawNow(card, card.plan, card.asked);
      this.drawn();
    });
  }

  #drawNow(card, plan, asked) {
    draw(card, plan, asked, (task) => this.words.get(`${plan.turn_id}/${task}`)?.text);
  }
}

const newsOf = ({ tasks }, { details }) =>
  `The team waits for your answer. ${details.reason ?? `May a plan of ${tasks.length} tasks be carried out?`}`;

/** What had the focus may be gone: then the card has it. */
function keepFocus(item) {
  const focused = document.activeElement;
  if (!item.contains(focused) || !focused.checkVisibility()) item.focus({ preventScroll: true });
}
