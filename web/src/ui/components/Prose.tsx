import { Fragment } from "react";

/** A sentence of the server or of a catalogue: what is between backticks is code, and nothing is HTML. */
export function Prose({ text }: { text: string }) {
  return text.split(/`([^`\n]+)`/).map((part, place) => (place % 2 ? <code key={place}>{part}</code> : <Fragment key={place}>{part}</Fragment>));
}
