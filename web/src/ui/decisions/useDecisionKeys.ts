import { type RefObject, useEffect, useRef } from "react";

const CALM_MS = 700; // a key that was meant for something else must not answer a question that has just come

export interface DecisionKeys {
  Enter?: () => void;
  a?: () => void;
  r?: () => void;
  d?: () => void;
}

/**
 * Keys that answer the question on the screen: none while somebody types. In the empty composer only Enter counts, as a
 * message may begin with any letter. Other letters that are typed on the bar go to the composer.
 */
export function useDecisionKeys(question: string, bar: RefObject<HTMLElement | null>, keys: DecisionKeys): void {
  const latest = useRef(keys);
  useEffect(() => {
    latest.current = keys;
  });
  useEffect(() => {
    const since = performance.now();
    const listener = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.repeat || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
      const target = event.target instanceof HTMLElement ? event.target : document.body;
      if (target.closest("dialog, [popover]") || document.querySelector("dialog[open]")) return;
      const isField = target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
      const isEmptyComposer = target instanceof HTMLTextAreaElement && target.value === "" && isBeside(bar.current, target);
      if (isField && !(isEmptyComposer && event.key === "Enter" && !event.shiftKey)) return;
      if (event.key === "Enter" && target.closest("button, a, summary, [role=separator], [role=button]")) return;
      const key = event.key === "Enter" ? "Enter" : event.key.toLowerCase();
      const action = key === "Enter" || key === "a" || key === "r" || key === "d" ? latest.current[key] : undefined;
      if (action && !event.shiftKey) {
        event.preventDefault();
        if (performance.now() - since > CALM_MS) action();
      } else if (target === bar.current && event.key.length === 1) composerBeside(bar.current)?.focus();
    };
    document.addEventListener("keydown", listener);
    return () => document.removeEventListener("keydown", listener);
  }, [question, bar]);
}

function isBeside(bar: HTMLElement | null, target: HTMLElement): boolean {
  return bar?.parentElement?.contains(target) ?? false;
}

/** Return the field for messages that stands with the bar. */
export function composerBeside(bar: HTMLElement | null): HTMLTextAreaElement | null {
  return bar?.parentElement?.querySelector("textarea") ?? null;
}
