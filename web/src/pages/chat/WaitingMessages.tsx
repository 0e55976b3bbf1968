import { Clock, CornerDownLeft, Pencil } from "lucide-react";
import { type KeyboardEvent, useMemo, useState } from "react";
import { createWaiting } from "@/state/session/blocks";
import type { EntryOf } from "@/state/session/types";
import { preferences } from "@/state/preferences";
import { IconButton, classes } from "@/ui/components";
import { useCell, useSelected, useT } from "@/ui/hooks";
import { isSendKey } from "@/ui/sendKey";
import styles from "./Composer.module.css";
import { useChat } from "./chatContext";
import { useAttempt } from "./useAttempt";

/** Messages that are sent after the answer that is being written: they can be changed and taken back. */
export function WaitingMessages({ takeBack }: { takeBack: (text: string) => void }) {
  const t = useT();
  const { conversation } = useChat();
  const select = useMemo(() => createWaiting(), []);
  const { messages, sending } = useSelected(conversation.store, select);
  if (!messages.length && !sending.length) return null;
  return (
    <ul role="list" className={styles.waiting} aria-label={t("chat.waitingMessages")}>
      {messages.map((entry) => (
        <WaitingMessage key={entry.id} entry={entry} takeBack={takeBack} />
      ))}
      {sending.map(({ key, content, isDelayed }) => (
        <li key={key} className={styles.waitingRow}>
          <Clock aria-hidden="true" size={14} />
          <span className={classes(styles.waitingText, "ellipsis", "data")}>{content}</span>
          <span className="muted">{t(isDelayed ? "chat.delayed" : "chat.sending")}</span>
        </li>
      ))}
    </ul>
  );
}

function WaitingMessage({ entry, takeBack }: { entry: EntryOf<"message">; takeBack: (text: string) => void }) {
  const t = useT();
  const { conversation, editing, setEditing } = useChat();
  const { attempt, isBusy } = useAttempt();
  const { content } = entry.message;
  const turnId = entry.turn_id ?? "";
  if (editing === entry.id) {
    const save = (text: string) =>
      attempt(async () => {
        if (text.trim() && text !== content) await conversation.changeQueued(turnId, text);
        setEditing(null);
      });
    return (
      <li className={styles.waitingRow}>
        <Clock aria-hidden="true" size={14} />
        <EditWaiting content={content} save={save} cancel={() => setEditing(null)} />
      </li>
    );
  }
  const recall = () =>
    attempt(async () => {
      await conversation.cancel(turnId);
      takeBack(content);
    });
  return (
    <li className={styles.waitingRow}>
      <Clock aria-hidden="true" size={14} />
      <span className={classes(styles.waitingText, "ellipsis", "data")}>{content}</span>
      <span className="muted">{t("chat.goesNext")}</span>
      <IconButton label={t("chat.editQueued")} onClick={() => setEditing(entry.id)}>
        <Pencil aria-hidden="true" size={15} />
      </IconButton>
      <IconButton label={t("chat.recall")} isBusy={isBusy} onClick={recall}>
        <CornerDownLeft aria-hidden="true" size={15} />
      </IconButton>
    </li>
  );
}

function EditWaiting({ content, save, cancel }: { content: string; save: (text: string) => void; cancel: () => void }) {
  const t = useT();
  const [text, setText] = useState(content);
  const { enterSends } = useCell(preferences);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") cancel();
    if (isSendKey(event, enterSends)) {
      event.preventDefault();
      save(text);
    }
  };
  return <textarea autoFocus className={styles.waitingEdit} aria-label={t("chat.editQueued")} rows={1} value={text} onChange={(event) => setText(event.target.value)} onKeyDown={onKeyDown} onBlur={() => save(text)} />;
}
