import { Fragment } from "react";
import { visible } from "@/state/visible";

/** A sentence of the server or of a catalogue: what is between backticks is code, nothing is HTML, and nothing is hidden. */
export function Prose({ text }: { text: string }) {
  return visible(text, "\n\t").split(/`([^`\n]+)`/).map((part, place) => (place % 2 ? <code key={place}>{part}</code> : <Fragment key={place}>{part}</Fragment>));
}
