import { SendHorizontal, Square } from "lucide-react";
import { useCallback, useEffect, useRef, useState } from "react";
import { newKey } from "@/api/client";
import { Problem } from "@/api/problem";
import { problemText } from "@/i18n/problemText";
import { commandOf } from "@/state/completion";
import { storeDraftFiles } from "@/state/draftStore";
import { nextRecipient } from "@/state/openConversation";
import { readDraft, storeDraft } from "@/state/preferences";
import type { Conversation } from "@/state/session/conversation";
import { beginLater, beginnings } from "@/state/session/beginning";
import { createConversation } from "@/state/session/opening";
import { isPassing } from "@/state/session/outbox";
import { createCell } from "@/state/store";
import { IconButton, Prose } from "@/ui/components";
import { useCell, useHotkey, useMedia, useProject, useSelected, useT } from "@/ui/hooks";
import { navigate } from "@/ui/router";
import { NEW, paths } from "@/ui/routes";
import { AttachButton, DropBox } from "./Attach";
import { PlanChip, RecipientChip } from "./Chips";
import styles from "./Composer.module.css";
import { DraftFiles } from "./DraftFiles";
import { TextBox } from "./TextBox";
import { WaitingMessages } from "./WaitingMessages";
import { commandsOf } from "./commands";
import { upload, useDraftFiles } from "./draftFiles";
import { AUTO, nothing, usePlanMode, useRecipient } from "./recipient";

const noneRefused = createCell<Conversation["refused"] extends { get: () => infer R } ? R : never>([]);

/** Where messages are written: Enter sends, Shift+Enter breaks the line; what is not sent stays here. */
export function Composer({ conversation, offered = "" }: { conversation: Conversation | null; offered?: string }) {
  const t = useT();
  const project = useProject();
  const hasMouse = useMedia("(hover: hover)");
  const key = `${project.id}.${conversation?.id ?? NEW}`;
  const { text, setText, putBack, takeOff, landed } = useDraftText(key, offered);
  const input = useRef<HTMLTextAreaElement>(null);
  const drafts = useDraftFiles(key);
  const recipient = useRecipient(conversation);
  const [planMode, setPlanMode] = usePlanMode(conversation);
  const [problem, setProblem] = useState<string | null>(null);
  const [isSending, setSending] = useState(false);
  const [beginningKey] = useState(newKey);
  const isWorking = useSelected(conversation?.store ?? nothing, (state) => Object.keys(state.turns).length > 0);
  const commands = commandsOf(t, project, conversation, recipient.set);

  useEffect(() => {
    if (hasMouse) input.current?.focus();
  }, [hasMouse]);
  useHotkey("/", (event) => {
    event.preventDefault();
    input.current?.focus();
  });
  const wanted = useCell(nextRecipient);
  useEffect(() => {
    if (wanted?.projectId !== project.id) return;
    nextRecipient.set(null);
    recipient.set(wanted.agent);
    input.current?.focus();
  }, [wanted, recipient, project]);
  const tell = (failure: Problem) => setProblem(failure.code === "agent_not_found" ? t("chat.agentGone") : problemText(failure));
  useRefused(conversation, ({ message, problem: failure }) => {
    putBack(message.content);
    if (conversation && message.attachments.length) drafts.addStored(conversation.id, message.attachments);
    tell(failure);
  });

  const send = async () => {
    if (!text.trim() || isSending) return;
    setProblem(null);
    const command = commandOf(text);
    const known = command && commands.find(({ name }) => name === command.name);
    const content = takeOff();
    input.current?.focus();
    setSending(true);
    try {
      if (known) await known.run(command.rest);
      else if (conversation) conversation.post(content, recipient.of(content), await upload(conversation.id, drafts.files));
      else await begin(content);
      if (!known) drafts.clear();
      landed();
    } catch (failure) {
      putBack(content);
      if (!(failure instanceof Problem)) throw failure;
      tell(failure);
    } finally {
      setSending(false);
    }
  };
  const begin = async (content: string) => {
    const target = recipient.of(content);
    const isAlone = drafts.files.length === 0; // files need their conversation
    if (isAlone && beginnings.get().some(({ projectId }) => projectId === project.id)) {
      beginLater(project.id, planMode, newKey(), content, target); // after what waits already
      return;
    }
    let made: Awaited<ReturnType<typeof createConversation>>;
    try {
      made = await createConversation(project.id, planMode, beginningKey);
    } catch (failure) {
      if (!(failure instanceof Problem) || !isPassing(failure) || !isAlone) throw failure;
      beginLater(project.id, planMode, beginningKey, content, target);
      return;
    }
    const { session, conversation: created } = made;
    const own = `${project.id}.${session.session_id}`;
    project.putSession(session);
    try {
      created.post(content, target, await upload(session.session_id, drafts.files));
    } catch (failure) {
      if (!(failure instanceof Problem)) throw failure;
      // The conversation is there, and its own composer gets the text and the files.
      storeDraft(own, content);
      await storeDraftFiles(own, drafts.files);
    }
    landed(own);
    navigate(paths.chat(project.id, session.session_id), { replace: true });
  };
  const stop = async () => {
    input.current?.focus(); // the button goes away
    try {
      await conversation?.cancel();
    } catch (failure) {
      if (!(failure instanceof Problem)) throw failure;
      tell(failure);
    }
  };
  const takeBack = (content: string) => {
    putBack(content);
    input.current?.focus();
  };
  const told = problem ?? drafts.problem;
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
        <DropBox addFiles={drafts.add}>
          <DraftFiles files={drafts.files} remove={drafts.remove} />
          <TextBox input={input} text={text} setText={setText} recipient={recipient} commands={commands} addFiles={drafts.add} send={() => void send()} isWorking={isWorking} stop={() => void stop()} />
          <div className={styles.tools}>
            <AttachButton addFiles={drafts.add} />
            <RecipientChip recipient={recipient} />
            {recipient.name === AUTO && <PlanChip mode={planMode} setMode={setPlanMode} />}
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
        <p role="status" className={styles.hint}>
          {drafts.files.length > 0 && !text.trim() && t("chat.addWords")}
        </p>
        <p role="alert" className={styles.error}>
          {told && <Prose text={told} />}
        </p>
      </form>
    </>
  );
}

/** The text of a draft. What is being sent stays stored until it has landed, so a reload in between loses nothing. */
function useDraftText(key: string, offered: string) {
  const [text, setText] = useState(() => offered || readDraft(key));
  const latest = useRef({ text, onItsWay: "" });
  useEffect(() => {
    latest.current.text = text;
    storeDraft(key, joined(latest.current.onItsWay, text));
  }, [key, text]);
  return {
    text,
    setText,
    takeOff: () => {
      latest.current = { text: "", onItsWay: text };
      setText("");
      return text;
    },
    putBack: useCallback((content: string) => {
      latest.current.onItsWay = "";
      setText((written) => joined(content, written));
    }, []),
    /** What was sent is safe elsewhere; what was written meanwhile goes to `moved`, if that is another draft. */
    landed: (moved = key) => {
      const { text: written } = latest.current;
      latest.current.onItsWay = "";
      storeDraft(key, moved === key ? written : "");
      if (moved === key) return;
      storeDraft(moved, joined(readDraft(moved), written));
    },
  };
}

function joined(before: string, after: string): string {
  return before && after ? `${before}\n${after}` : before || after;
}

/** Take messages that the server refused. */
function useRefused(conversation: Conversation | null, take: (refused: ReturnType<Conversation["refused"]["get"]>[number]) => void): void {
  const refused = useCell(conversation?.refused ?? noneRefused);
  const latest = useRef(take);
  useEffect(() => {
    latest.current = take;
  });
  useEffect(() => {
    if (!refused.length || !conversation) return;
    conversation.refused.set([]);
    for (const each of refused) latest.current(each);
  }, [refused, conversation]);
}
