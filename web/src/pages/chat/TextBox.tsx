import { type ClipboardEvent, type KeyboardEvent, use, useId, useRef, useState } from "react";
import { flushSync } from "react-dom";
import { replaceToken, tokenAt } from "@/state/completion";
import { closePanel, panel } from "@/state/panel";
import { preferences } from "@/state/preferences";
import { agentLabel } from "@/ui/agents";
import { useCell, useProjectState, useT } from "@/ui/hooks";
import { isSendKey } from "@/ui/sendKey";
import { CompletionList } from "./CompletionList";
import styles from "./Composer.module.css";
import { ChatContext } from "./chatContext";
import type { commandsOf } from "./commands";
import { AUTO, type Recipient } from "./recipient";
import { type Completion, useCompletions } from "./useCompletions";

const TWICE_MS = 1_000;

interface TextBoxProps {
  input: React.RefObject<HTMLTextAreaElement | null>;
  text: string;
  setText: (text: string) => void;
  recipient: Recipient;
  commands: ReturnType<typeof commandsOf>;
  addFiles: (files: readonly File[]) => void;
  send: () => void;
  /** Somebody is at work: Escape, twice, stops it; else it closes the panel. */
  isWorking: boolean;
  stop: () => void;
}

/** The text, and what completes it. */
export function TextBox({ input, text, setText, recipient, commands, addFiles, send, isWorking, stop }: TextBoxProps) {
  const t = useT();
  const id = useId();
  const { enterSends } = useCell(preferences);
  const { id: projectId, project, connector } = useProjectState();
  const editLast = useEditLast();
  const [caret, setCaret] = useState(0);
  const [active, setActive] = useState(0);
  const [dismissed, setDismissed] = useState<string | null>(null);
  const escapedAt = useRef(0);
  const token = tokenAt(text, caret);
  const completions = useCompletions(token, projectId, project?.agents ?? [], commands, connector?.online ?? false);
  const isOpen = token !== null && completions.length > 0 && dismissed !== text;
  const place = Math.min(active, completions.length - 1);
  const write = (next: string, at: number) => {
    // At once: a caret that is set a frame later is set behind the first letters that are typed after the choice.
    flushSync(() => {
      setText(next);
      setCaret(at);
    });
    input.current?.setSelectionRange(at, at);
  };
  const choose = (completion: Completion) => {
    if (!token) return;
    // An agent that a message begins with is who gets it.
    if (completion.kind === "agent" && token.start === 0) recipient.set(completion.agent);
    const isTaken = completion.kind === "agent" && token.start === 0;
    const replaced = replaceToken(text, token, isTaken ? "" : completion.value);
    write(replaced.text, replaced.caret);
    setActive(0);
  };
  const completeByKey = (event: KeyboardEvent): boolean => {
    const chosen = completions[place];
    if (!isOpen || !chosen) return false;
    if (!event.altKey && (event.key === "ArrowDown" || event.key === "ArrowUp")) setActive((place + (event.key === "ArrowDown" ? 1 : -1) + completions.length) % completions.length);
    else if (event.key === "Escape") setDismissed(text);
    else if (event.key === "Enter" && chosen.kind === "command" && !chosen.takesText && chosen.value === text.trim()) return false;
    else if (event.key === "Enter" || event.key === "Tab") choose(chosen);
    else return false;
    event.preventDefault();
    return true;
  };
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing || completeByKey(event)) return;
    if (event.key === "ArrowUp" && !event.altKey && text === "" && editLast()) event.preventDefault();
    if (event.key === "Escape") {
      if (!isWorking && panel.get().view !== null) closePanel();
      else if (isWorking && event.timeStamp - escapedAt.current < TWICE_MS) stop();
      escapedAt.current = event.timeStamp;
    }
    if (!isSendKey(event, enterSends)) return;
    event.preventDefault();
    send();
  };
  const onPaste = (event: ClipboardEvent) => {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    addFiles([...event.clipboardData.files]);
  };
  return (
    <>
      {isOpen && <CompletionList id={id} completions={completions} active={place} choose={choose} />}
      <textarea
        ref={input}
        className={styles.input}
        aria-label={t("chat.composer")}
        aria-autocomplete="list"
        aria-controls={isOpen ? id : undefined}
        aria-activedescendant={isOpen ? `${id}-${place}` : undefined}
        placeholder={recipient.name === AUTO ? t("chat.placeholderAuto") : t("chat.placeholder", { agent: agentLabel(recipient.name) })}
        rows={1}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setCaret(event.target.selectionStart);
          setActive(0);
        }}
        onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
      />
    </>
  );
}

/** Return a function that opens the last message of the user for editing; it returns whether there is one. */
function useEditLast(): () => boolean {
  const chat = use(ChatContext);
  return () => {
    if (!chat) return false;
    const { items, turns } = chat.conversation.store.get();
    const own = Object.values(items).filter((item) => item.kind === "message" && item.message.role === "user" && item.message.status !== "retried");
    const last = own.toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at)).at(-1);
    const status = turns[last?.turn_id ?? ""]?.status;
    if (!last || (status !== undefined && status !== "queued")) return false;
    chat.setEditing(last.id);
    return true;
  };
}
