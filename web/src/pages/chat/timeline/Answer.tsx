import { Copy, GitFork, Info, RotateCw, ThumbsDown, ThumbsUp } from "lucide-react";
import { memo, useState } from "react";
import { formatCompact, formatDuration, formatMoney } from "@/i18n/format";
import { call } from "@/api/client";
import { openPanel } from "@/state/panel";
import type { EntryOf, SessionState } from "@/state/session/types";
import { toast } from "@/state/toasts";
import { agentLabel } from "@/ui/agents";
import { Avatar, FormDialog, IconButton, Moment, TextArea, classes, textOf } from "@/ui/components";
import { copyAndTell } from "@/ui/clipboard";
import { useProject, useProjectState, useSelected, useT } from "@/ui/hooks";
import { Markdown } from "@/ui/markdown/Markdown";
import { navigate } from "@/ui/router";
import { paths } from "@/ui/routes";
import { useChat } from "../chatContext";
import { useAttempt } from "../useAttempt";
import styles from "./Timeline.module.css";

interface AnswerProps {
  parts: readonly EntryOf<"message">[];
  draftId: string | null;
  turnId: string | null;
  isLast: boolean;
  isFolded?: boolean;
}

/** What an agent said: the parts of an answer that was continued are one text. */
export const Answer = memo(function Answer({ parts, draftId, turnId, isLast, isFolded = false }: AnswerProps) {
  const t = useT();
  const { conversation } = useChat();
  const draft = useSelected(conversation.store, (state) => (draftId === null ? undefined : state.drafts[draftId]));
  const openAgent = useSelected(conversation.store, (state: SessionState) => (turnId === null ? null : (state.turns[turnId]?.agentId ?? null)));
  const { project } = useProjectState();
  const [first] = parts;
  const last = parts.at(-1);
  const agentId = first?.message.agent_id ?? openAgent;
  const name = project?.agents.find(({ id }) => id === agentId)?.name ?? first?.message.agent ?? null;
  const isGrowing = draftId !== null;
  const text = parts.map(({ message }) => message.content).join("") + (draft?.text ?? "");
  if (!first && !draft) return null;
  return (
    <article className={styles.answer} aria-busy={isGrowing || undefined} aria-label={t("chat.answerOf", { agent: name === null ? t("chat.team") : agentLabel(name) })}>
      <div className={styles.by}>
        <Avatar agent={name ?? "team"} />
        <span className="data">{name === null ? t("chat.team") : agentLabel(name)}</span>
        {first && <Moment at={first.at} />}
      </div>
      <div className={styles.answerText}>
        <Markdown text={text} isGrowing={isGrowing} />
      </div>
      {last && !isGrowing && !isFolded && <AnswerActions entry={last} text={text} isLast={isLast} />}
    </article>
  );
});

function AnswerActions({ entry, text, isLast }: { entry: EntryOf<"message">; text: string; isLast: boolean }) {
  const t = useT();
  const project = useProject();
  const { conversation } = useChat();
  const { attempt } = useAttempt();
  const [isCommenting, setCommenting] = useState(false);
  const isWorking = useSelected(conversation.store, (state) => Object.keys(state.turns).length > 0);
  const { id, message, turn_id } = entry;
  const rating = message.feedback?.rating ?? null;
  const fork = () =>
    attempt(async () => {
      const session = await call("POST /my/chat/sessions/{session_id}/fork", { path: { session_id: conversation.id }, body: { message_id: id } });
      project.reload("sessions");
      navigate(paths.chat(session.project_id, session.session_id));
      toast(t("chat.forked"));
    });
  const rate = (wanted: "good" | "bad") =>
    attempt(async () => {
      await conversation.rate(id, wanted);
      if (wanted === "bad") setCommenting(true);
    });
  return (
    <div className={classes(styles.actions, isLast && styles.stay)}>
      <IconButton className={styles.action} label={t("common.copy")} onClick={() => void copyAndTell(text)}>
        <Copy aria-hidden="true" size={15} />
      </IconButton>
      {turn_id !== null && (
        <IconButton className={styles.action} label={t("chat.again")} isDisabled={isWorking} onClick={() => attempt(() => conversation.retry(turn_id))}>
          <RotateCw aria-hidden="true" size={15} />
        </IconButton>
      )}
      <IconButton className={styles.action} label={t("chat.fork")} onClick={fork}>
        <GitFork aria-hidden="true" size={15} />
      </IconButton>
      <IconButton className={styles.action} label={t("chat.good")} isPressed={rating === "good"} onClick={() => rate("good")}>
        <ThumbsUp aria-hidden="true" size={15} />
      </IconButton>
      <IconButton className={styles.action} label={t("chat.bad")} isPressed={rating === "bad"} onClick={() => rate("bad")}>
        <ThumbsDown aria-hidden="true" size={15} />
      </IconButton>
      <IconButton className={styles.action} label={t("chat.details")} onClick={() => openPanel({ kind: "details", id })}>
        <Info aria-hidden="true" size={15} />
      </IconButton>
      <Facts message={message} />
      {isCommenting && (
        <FormDialog
          title={t("chat.whatWasBad")}
          submitLabel={t("chat.sendComment")}
          onSubmit={(form) => conversation.rate(id, "bad", textOf(form, "comment"))}
          onClose={() => setCommenting(false)}
        >
          <TextArea label={t("chat.comment")} isLabelHidden name="comment" rows={3} maxLength={2000} autoFocus />
        </FormDialog>
      )}
    </div>
  );
}

/** Tokens, cost and time of an answer, in a few characters. */
function Facts({ message: { usage, duration_ms } }: { message: EntryOf<"message">["message"] }) {
  const t = useT();
  if (!usage) return null;
  const words = [
    t("chat.tokens", { tokens: formatCompact(usage.input_tokens + usage.output_tokens) }),
    usage.cost_usd ? formatMoney(usage.cost_usd) : null,
    duration_ms ? formatDuration(duration_ms) : null,
  ];
  return <span className={styles.facts}>{words.filter(Boolean).join(" · ")}</span>;
}
