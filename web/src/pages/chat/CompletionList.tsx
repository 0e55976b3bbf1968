import { Bot, File, Slash } from "lucide-react";
import { useEffect, useRef } from "react";
import { visible } from "@/state/visible";
import { classes } from "@/ui/components";
import { useT } from "@/ui/hooks";
import styles from "./Composer.module.css";
import type { Completion } from "./useCompletions";

interface CompletionListProps {
  id: string;
  completions: readonly Completion[];
  active: number;
  choose: (completion: Completion) => void;
}

/** What can be chosen for the word at the caret; the text keeps the focus. */
export function CompletionList({ id, completions, active, choose }: CompletionListProps) {
  const t = useT();
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    list.current?.children[active]?.scrollIntoView({ block: "nearest" });
  }, [active]);
  return (
    <ul ref={list} id={id} role="listbox" aria-label={t("chat.completions")} className={styles.completions}>
      {completions.map((completion, place) => (
        <li
          key={completion.key}
          id={`${id}-${place}`}
          role="option"
          aria-selected={place === active}
          className={styles.completion}
          onPointerDown={(event) => {
            event.preventDefault(); // the focus stays in the text
            choose(completion);
          }}
        >
          {completion.kind === "agent" ? <Bot aria-hidden="true" size={16} /> : completion.kind === "file" ? <File aria-hidden="true" size={16} /> : <Slash aria-hidden="true" size={16} />}
          <span className={classes("ellipsis", "data", completion.kind === "file" && styles.file)}>{visible(completion.label)}</span>
          <span className={styles.completionHint}>{completion.kind === "command" ? completion.hint : completion.kind === "agent" ? t("chat.completionAgent") : t("chat.completionFile")}</span>
        </li>
      ))}
    </ul>
  );
}
