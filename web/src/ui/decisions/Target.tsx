import { tOr } from "@/i18n";
import type { Subject } from "@/state/decisions";
import { visible } from "@/state/visible";
import { plainToolName } from "../tools";
import { classes } from "../components/classes";
import { Visible } from "./Visible";
import styles from "./Decisions.module.css";

/** The file or the command that a question is about, or the tool: by its plain name if the catalogue has one. */
export function Target({ subject }: { subject: Pick<Subject, "verb" | "target"> }) {
  const name = plainNameOf(subject);
  if (name !== null) return <strong title={subject.target}>{name}</strong>;
  return (
    <code className={classes(styles.target, "data")}>
      <Visible text={subject.target} />
    </code>
  );
}

/** Return who wants to do what, without the target. */
export function wantsText(subject: Pick<Subject, "verb" | "target">, who: string, tasks: number): string {
  return tOr(`decisions.wants_${plainNameOf(subject) === null ? subject.verb : "known"}`, subject.verb, { agent: who, count: tasks });
}

/** Return the same as a text. */
export function targetText(subject: Pick<Subject, "verb" | "target">): string {
  return plainNameOf(subject) ?? visible(subject.target);
}

function plainNameOf({ verb, target }: Pick<Subject, "verb" | "target">): string | null {
  return verb === "call" ? plainToolName(target) : null;
}
