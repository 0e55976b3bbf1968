import { Copy, Pencil } from "lucide-react";
import { type KeyboardEvent, memo, useState } from "react";
import { preferences } from "@/state/preferences";
import { Button, IconButton, Moment, classes } from "@/ui/components";
import { copyAndTell } from "@/ui/clipboard";
import { useCell, useSelected, useT } from "@/ui/hooks";
import { isSendKey } from "@/ui/sendKey";
import type { EntryOf, Sending } from "@/state/session/types";
import { AttachmentList } from "../AttachmentList";
import { useChat } from "../chatContext";
import { useAttempt } from "../useAttempt";
import styles from "./Timeline.module.css";

/** What the user said; can be copied, and changed and sent again. */
export const UserMessage = memo(function UserMessage({ entry, isFolded = false }: { entry: EntryOf<"message">; isFolded?: boolean }) {
  const t = useT();
  const { conversation, editing, setEditing } = useChat();
  const { content, attachments } = entry.message;
  const isOpen = useSelected(conversation.store, (state) => (entry.turn_id ?? "") in state.turns);
  if (editing === entry.id) return <EditMessage entry={entry} />;
  return (
    <div className={styles.userRow} role="group" aria-label={t("chat.yourMessage")}>
      <div className={styles.user}>
        {attachments.length > 0 && <AttachmentList sessionId={conversation.id} attachments={attachments} />}
        <div className={styles.userText}>{content}</div>
      </div>
      <div className={styles.userActions}>
        <Moment at={entry.at} />
        <IconButton className={styles.action} label={t("common.copy")} onClick={() => void copyAndTell(content)}>
          <Copy aria-hidden="true" size={15} />
        </IconButton>
        {!isOpen && !isFolded && entry.turn_id !== null && (
          <IconButton className={styles.action} label={t("chat.edit")} onClick={() => setEditing(entry.id)}>
            <Pencil aria-hidden="true" size={15} />
          </IconButton>
        )}
      </div>
    </div>
  );
});

function EditMessage({ entry }: { entry: EntryOf<"message"> }) {
  const t = useT();
  const { conversation, setEditing } = useChat();
  const [text, setText] = useState(entry.message.content);
  const { enterSends } = useCell(preferences);
  const { attempt, isBusy } = useAttempt();
  const send = () =>
    attempt(async () => {
      if (!text.trim() || entry.turn_id === null) return;
      await conversation.retry(entry.turn_id, { content: text });
      setEditing(null);
    });
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") setEditing(null);
    if (isSendKey(event, enterSends)) {
      event.preventDefault();
      send();
    }
  };
  return (
    <div className={styles.editing}>
      <textarea autoFocus className={styles.editText} aria-label={t("chat.edit")} value={text} onChange={(event) => setText(event.target.value)} onKeyDown={onKeyDown} />
      <div className="row">
        <Button kind="primary" size="small" isBusy={isBusy} isDisabled={!text.trim()} onClick={send}>
          {t("chat.sendAgain")}
        </Button>
        <Button size="small" onClick={() => setEditing(null)}>
          {t("common.cancel")}
        </Button>
      </div>
    </div>
  );
}

export function SendingMessage({ sending }: { sending: Pick<Sending, "content" | "attachments" | "isDelayed"> }) {
  const t = useT();
  return (
    <div className={styles.userRow} role="group" aria-label={t("chat.yourMessage")}>
      <div className={styles.user}>
        {sending.attachments.length > 0 && <AttachmentList sessionId={null} attachments={sending.attachments} />}
        <div className={styles.userText}>{sending.content}</div>
      </div>
      <div className={classes(styles.userActions, styles.stay)}>
        <span className={styles.faint}>{t(sending.isDelayed ? "chat.delayed" : "chat.sending")}</span>
      </div>
    </div>
  );
}
