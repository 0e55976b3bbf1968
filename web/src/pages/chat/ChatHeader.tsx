import { useState } from "react";
import { formatMoney } from "@/i18n/format";
import type { Conversation } from "@/state/session/conversation";
import type { SessionState } from "@/state/session/types";
import { conversationTitle } from "@/ui/conversationTitle";
import { classes } from "@/ui/components";
import { SMALL, useMedia, useProject, useSelected, useT } from "@/ui/hooks";
import styles from "./ChatHeader.module.css";
import { ConversationMenu } from "./ConversationMenu";
import { useAttempt } from "./useAttempt";

/** The title of a conversation; a click changes it. */
export function EditableTitle({ conversation }: { conversation: Conversation }) {
  const t = useT();
  const project = useProject();
  const title = useSelected(conversation.store, (state) => state.session?.title ?? "");
  const [draft, setDraft] = useState<string | null>(null);
  const { attempt } = useAttempt();
  const save = () => {
    const wanted = draft?.trim() ?? "";
    setDraft(null);
    if (!wanted || wanted === title) return;
    attempt(async () => {
      await conversation.change({ title: wanted });
      project.reload("sessions");
    });
  };
  if (draft === null) {
    return (
      <button type="button" className={classes(styles.title, "ellipsis", "data")} title={t("chat.titleHint")} onClick={() => setDraft(title)}>
        {conversationTitle(title)}
      </button>
    );
  }
  return (
    <input
      autoFocus
      className={styles.input}
      aria-label={t("chat.title")}
      maxLength={200}
      value={draft}
      onFocus={(event) => event.target.select()}
      onChange={(event) => setDraft(event.target.value)}
      onBlur={save}
      onKeyDown={(event) => {
        if (event.key === "Enter" && !event.nativeEvent.isComposing) save();
        if (event.key === "Escape") setDraft(null);
      }}
    />
  );
}

/** Model and cost of a conversation, and its menu. */
export function ChatActions({ conversation }: { conversation: Conversation }) {
  const project = useProject();
  const isSmall = useMedia(SMALL);
  const session = useSelected(conversation.store, (state) => state.session);
  const model = useSelected(conversation.store, lastModel);
  if (!session) return null;
  const cost = session.cost_usd ? formatMoney(session.cost_usd) : null;
  return (
    <>
      {!isSmall && <span className={classes(styles.facts, "data")}>{[model, cost].filter(Boolean).join(" · ")}</span>}
      <ConversationMenu session={session} project={project} onChange={() => conversation.refreshSession()} />
    </>
  );
}

/** Return the model of the newest answer. */
function lastModel({ items }: SessionState): string | null {
  let [at, model]: [string, string | null] = ["", null];
  for (const item of Object.values(items)) {
    if (item.kind === "message" && item.message.usage && item.at > at) [at, model] = [item.at, item.message.usage.model];
  }
  return model;
}
