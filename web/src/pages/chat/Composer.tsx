import { Paperclip, SendHorizontal, Square } from "lucide-react";
import { type ClipboardEvent, type DragEvent, type KeyboardEvent, use, useEffect, useId, useRef, useState } from "react";
import { Problem } from "@/api/problem";
import { problemText } from "@/i18n/problemText";
import { commandOf, leadingMention, replaceToken, tokenAt } from "@/state/completion";
import { createConversation } from "@/state/openConversation";
import { preferences, readDraft, storeDraft } from "@/state/preferences";
import type { Conversation } from "@/state/session/conversation";
import { emptySession } from "@/state/session/types";
import { createCell } from "@/state/store";
import { toast } from "@/state/toasts";
import { agentHandle, agentLabel } from "@/ui/agents";
import { IconButton, Prose } from "@/ui/components";
import { useCell, useHotkey, useMedia, useProject, useProjectState, useSelected, useT } from "@/ui/hooks";
import { navigate } from "@/ui/router";
import { NEW, paths } from "@/ui/routes";
import { CompletionList } from "./CompletionList";
import styles from "./Composer.module.css";
import { DraftFiles } from "./DraftFiles";
import { WaitingMessages } from "./WaitingMessages";
import { ChatContext } from "./chatContext";
import { commandsOf } from "./commands";
import { type DraftFile, MAX_BYTES, MAX_FILES, draftFile, upload } from "./draftFiles";
import { type Completion, useCompletions } from "./useCompletions";

const AUTO = "";
const TWICE_MS = 1_000;
const nothing = createCell(emptySession(""));

/** Where messages are written: Enter sends, Shift+Enter breaks the line; what is not sent stays here. */
export function Composer({ conversation, offered = "" }: { conversation: Conversation | null; offered?: string }) {
  const t = useT();
  const project = useProject();
  const hasMouse = useMedia("(hover: hover)");
  const key = `${project.id}.${conversation?.id ?? NEW}`;
  const [text, setText] = useState(() => offered || readDraft(key));
  const input = useRef<HTMLTextAreaElement>(null);
  const { files, addFiles, removeFile, clearFiles, fileProblem } = useDraftFiles();
  const recipient = useRecipient(conversation);
  const [problem, setProblem] = useState<string | null>(null);
  const [isSending, setSending] = useState(false);
  const isWorking = useSelected(conversation?.store ?? nothing, (state) => Object.keys(state.turns).length > 0);
  const commands = commandsOf(t, project, conversation, recipient.set);

  useEffect(() => {
    if (hasMouse) input.current?.focus();
  }, [hasMouse]);
  useEffect(() => storeDraft(key, text), [key, text]);
  useHotkey("/", (event) => {
    event.preventDefault();
    input.current?.focus();
  });

  const fail = (failure: unknown, content: string) => {
    setText((written) => (written ? `${content}\n${written}` : content));
    setProblem(failure instanceof Problem && failure.code === "agent_not_found" ? t("chat.agentGone") : problemText(failure));
    if (!(failure instanceof Problem)) throw failure;
  };
  const send = async () => {
    const content = text;
    if (!content.trim() || isSending) return;
    setProblem(null);
    const command = commandOf(content);
    const known = command && commands.find(({ name }) => name === command.name);
    setText("");
    storeDraft(key, "");
    input.current?.focus();
    setSending(files.length > 0);
    try {
      if (known) {
        await known.run(command.rest);
        return;
      }
      const to = recipient.of(content);
      if (conversation) await conversation.send(content, to, await upload(conversation.id, files));
      else await begin(content, to);
      clearFiles();
      project.reload("sessions");
    } catch (failure) {
      fail(failure, content);
    } finally {
      setSending(false);
    }
  };
  const begin = async (content: string, to: string | null) => {
    const { session, conversation: created } = await createConversation(project.id);
    project.putSession(session);
    try {
      await created.send(content, to, await upload(session.session_id, files));
    } catch (failure) {
      if (!(failure instanceof Problem)) throw failure;
      // The conversation is there, and its own composer has the text.
      storeDraft(`${project.id}.${session.session_id}`, content);
      toast(problemText(failure), { kind: "error" });
    }
    navigate(paths.chat(project.id, session.session_id), { replace: true });
  };
  const stop = async () => {
    try {
      await conversation?.cancel();
    } catch (failure) {
      setProblem(problemText(failure));
      if (!(failure instanceof Problem)) throw failure;
    }
  };
  const takeBack = (content: string) => {
    setText((written) => (written ? `${content}\n${written}` : content));
    input.current?.focus();
  };
  return (
    <>
      {conversation && <WaitingMessages takeBack={takeBack} />}
      <form
        className={styles.composer}
        onSubmit={(event) => {
          event.preventDefault();
          void send();
        }}
      >
        <DropBox addFiles={addFiles}>
          <DraftFiles files={files} remove={removeFile} />
          <TextBox input={input} text={text} setText={setText} recipient={recipient} commands={commands} addFiles={addFiles} send={() => void send()} stop={() => isWorking && void stop()} />
          <div className={styles.tools}>
            <AttachButton addFiles={addFiles} />
            <RecipientChip recipient={recipient} />
            <span className={styles.end}>
              {isWorking && !text.trim() ? (
                <IconButton className={styles.stop} label={t("chat.stop")} onClick={() => void stop()}>
                  <Square aria-hidden="true" size={14} fill="currentColor" />
                </IconButton>
              ) : (
                <IconButton className={styles.send} label={isWorking ? t("chat.queue") : t("chat.send")} type="submit" isDisabled={!text.trim()} isBusy={isSending}>
                  <SendHorizontal aria-hidden="true" size={18} />
                </IconButton>
              )}
            </span>
          </div>
        </DropBox>
        <p role="alert" className={styles.error}>
          {(problem ?? fileProblem) && <Prose text={problem ?? fileProblem ?? ""} />}
        </p>
      </form>
    </>
  );
}

interface Recipient {
  /** Name of an agent; AUTO for none. */
  name: string;
  set: (agent: string | null) => void;
  /** Who gets a text: an agent that it begins with, else the chosen one. */
  of: (text: string) => string | null;
}

/** Who gets the messages: it belongs to the conversation, in all tabs. */
function useRecipient(conversation: Conversation | null): Recipient {
  const { project } = useProjectState();
  const stored = useSelected(conversation?.store ?? nothing, (state) => state.session?.recipient ?? null);
  const [chosen, setChosen] = useState<{ name: string; before: string | null } | null>(null);
  // What was chosen here counts until the server tells something else.
  const name = (chosen && chosen.before === stored ? chosen.name : stored) ?? AUTO;
  const set = (agent: string | null) => {
    setChosen({ name: agent ?? AUTO, before: stored });
    conversation?.change({ recipient: agent }).catch((failure: unknown) => {
      if (!(failure instanceof Problem)) throw failure; // the next message tells it
    });
  };
  const of = (text: string) => {
    const handle = leadingMention(text)?.toLowerCase();
    const mentioned = project?.agents.find((agent) => [agent.name.toLowerCase(), agentHandle(agent.name).toLowerCase()].includes(handle ?? ""));
    return mentioned?.name ?? (name === AUTO ? null : name);
  };
  return { name, set, of };
}

function RecipientChip({ recipient }: { recipient: Recipient }) {
  const t = useT();
  const { project } = useProjectState();
  const agents = project?.agents ?? [];
  const isGone = recipient.name !== AUTO && !agents.some(({ name }) => name === recipient.name);
  return (
    <select className={styles.to} aria-label={t("chat.recipient")} value={recipient.name} onChange={(event) => recipient.set(event.target.value === AUTO ? null : event.target.value)}>
      <option value={AUTO}>{t("common.auto")}</option>
      {isGone && <option value={recipient.name}>{agentLabel(recipient.name)}</option>}
      {agents.map(({ id, name }) => (
        <option key={id} value={name}>
          {agentLabel(name)}
        </option>
      ))}
    </select>
  );
}

function useDraftFiles() {
  const t = useT();
  const [files, setFiles] = useState<readonly DraftFile[]>([]);
  const [fileProblem, setFileProblem] = useState<string | null>(null);
  const addFiles = (added: readonly File[]) => {
    const tooLarge = added.find(({ size }) => size > MAX_BYTES);
    const fitting = added.filter(({ size }) => size <= MAX_BYTES);
    const isTooMany = files.length + fitting.length > MAX_FILES;
    setFileProblem(tooLarge ? t("chat.fileTooLarge", { name: tooLarge.name }) : isTooMany ? t("chat.tooManyFiles") : null);
    setFiles((before) => [...before, ...fitting.map(draftFile)].slice(0, MAX_FILES));
  };
  const removeFile = (key: number) => setFiles((before) => before.filter((file) => file.key !== key));
  return { files, addFiles, removeFile, clearFiles: () => setFiles([]), fileProblem };
}

function DropBox({ addFiles, children }: { addFiles: (files: readonly File[]) => void; children: React.ReactNode }) {
  const [isOver, setOver] = useState(false);
  const over = (event: DragEvent) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setOver(true);
  };
  const drop = (event: DragEvent) => {
    setOver(false);
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    addFiles([...event.dataTransfer.files]);
  };
  return (
    <div className={styles.box} data-drop={isOver || undefined} onDragOver={over} onDragLeave={() => setOver(false)} onDrop={drop}>
      {children}
    </div>
  );
}

function AttachButton({ addFiles }: { addFiles: (files: readonly File[]) => void }) {
  const t = useT();
  const field = useRef<HTMLInputElement>(null);
  return (
    <>
      <IconButton label={t("chat.attach")} onClick={() => field.current?.click()}>
        <Paperclip aria-hidden="true" size={18} />
      </IconButton>
      <input
        ref={field}
        type="file"
        multiple
        hidden
        aria-label={t("chat.attach")}
        onChange={(event) => {
          addFiles([...(event.target.files ?? [])]);
          event.target.value = "";
        }}
      />
    </>
  );
}

interface TextBoxProps {
  input: React.RefObject<HTMLTextAreaElement | null>;
  text: string;
  setText: (text: string) => void;
  recipient: Recipient;
  commands: ReturnType<typeof commandsOf>;
  addFiles: (files: readonly File[]) => void;
  send: () => void;
  stop: () => void;
}

/** The text, and what completes it. */
function TextBox({ input, text, setText, recipient, commands, addFiles, send, stop }: TextBoxProps) {
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
    setText(next);
    setCaret(at);
    requestAnimationFrame(() => input.current?.setSelectionRange(at, at));
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
    if (event.key === "ArrowDown" || event.key === "ArrowUp") setActive((place + (event.key === "ArrowDown" ? 1 : -1) + completions.length) % completions.length);
    else if (event.key === "Escape") setDismissed(text);
    else if (event.key === "Enter" && chosen.kind === "command" && !chosen.takesText && chosen.value === text.trim()) return false;
    else if (event.key === "Enter" || event.key === "Tab") choose(chosen);
    else return false;
    event.preventDefault();
    return true;
  };
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing || completeByKey(event)) return;
    if (event.key === "ArrowUp" && text === "" && editLast()) event.preventDefault();
    if (event.key === "Escape") {
      if (event.timeStamp - escapedAt.current < TWICE_MS) stop();
      escapedAt.current = event.timeStamp;
    }
    if (event.key !== "Enter" || event.shiftKey || (!enterSends && !event.ctrlKey && !event.metaKey)) return;
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
