// Rating an answer: the agents that wrote it remember what the user thinks of it.

import { $, Problem, call, copyOf, onSubmit, setProse } from "./basics.js";

/** Offer to rate an answer, and to say why; the pressed button is the rating that is stored. */
export function offerRating(item, session, message, given) {
  item.querySelector(".rating")?.remove();
  const form = copyOf("rating");
  const buttons = [...form.querySelectorAll("[aria-pressed]")];
  const [why, error, { comment }] = [form.querySelector(".why"), form.querySelector("[role=alert]"), form.elements];
  let isSending = false;
  const show = ({ rating, comment: said }) => {
    for (const button of buttons) button.ariaPressed = String(button.value === rating);
    comment.value = said;
    form.dataset.rating = rating;
  };
  const rate = async (rating) => {
    const path = `/my/chat/${session}/messages/${message}/feedback`;
    show((await call("POST", path, { rating, comment: comment.value })).feedback);
  };
  for (const button of buttons) {
    button.addEventListener("click", async () => {
      if (isSending) return;
      isSending = true;
      error.textContent = "";
      try {
        await rate(button.value);
        $("announcement").textContent = `Rated as ${button.value}.`;
        why.hidden = false;
      } catch (trouble) {
        setProse(error, trouble.message);
        if (!(trouble instanceof Problem)) throw trouble;
      } finally {
        isSending = false;
      }
    });
  }
  onSubmit(form, async () => {
    await rate(form.dataset.rating);
    form.dataset.done = "Your comment was saved.";
    buttons.find(({ value }) => value === form.dataset.rating).focus({ preventScroll: true });
    why.hidden = true;
  });
  if (given) show(given);
  item.append(form);
}
