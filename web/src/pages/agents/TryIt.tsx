import { SendHorizontal } from "lucide-react";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { call } from "@/api/client";
import { Problem } from "@/api/problem";
import type { Agent } from "@/api/types";
import { codeText, problemText } from "@/i18n/problemText";
import { Conversation } from "@/state/session/conversation";
import { type Row, createRows } from "@/state/session/rows";
import { visible } from "@/state/visible";
import { preferences } from "@/state/preferences";
import { Avatar, FormError, IconButton, Prose, Spinner } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useCell, useProject, useSelected, useT } from "@/ui/hooks";
import { isSendKey } from "@/ui/sendKey";
import { Markdown } from "@/ui/markdown/Markdown";
import { Link } from "@/ui/router";
import { paths } from "@/ui/routes";
import { SidePanel } from "@/ui/shell";
import { toolLabel } from "@/ui/tools";
import styles from "./Agents.module.css";

/** A chat with one agent beside its profile. The conversation is made by its first message. */
export function TryIt({ agent, isUnsaved, onClose }: { agent: Agent; isUnsaved: boolean; onClose: () => void }) {
  const t = useT();
  const project = useProject();
  const label = agentLabel(agent.name);
  const [conversation, setConversation] = useState<Conversation | null>(null);
  const [text, setText] = useState("");
  const { enterSends } = useCell(preferences);
  const [problem, setProblem] = useState<string | null>(null);
  const isSending = useRef(false);
  useEffect(() => () => conversation?.close(), [conversation]);
  const begin = async (): Promise<Conversation> => {
    const session = await call("POST /my/chat/sessions", { body: { project_id: agent.project_id } });
    const begun = new Conversation(session.session_id);
    void begun.open();
    setConversation(begun);
    project.putSession(session);
    return begun;
  };
  const send = async () => {
    const content = text.trim();
    if (!content || isSending.current) return;
    isSending.current = true;
    setText("");
    setProblem(null);
    try {
      const open = conversation ?? (await begin());
      await open.send(content, agent.name);
    } catch (failure) {
      setText(content);
      setProblem(problemText(failure));
      if (!(failure instanceof Problem)) throw failure;
    } finally {
      isSending.current = false;
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isSendKey(event, enterSends)) return;
    event.preventDefault();
    void send();
  };
  return (
    <SidePanel title={t("agents.tryTitle", { agent: label })} onClose={onClose}>
      <div className={styles.trial}>
        {isUnsaved && <p className={styles.notice}>{t("agents.tryUnsaved")}</p>}
        <div className={styles.trialLog} role="log" aria-label={t("chat.messages")}>
          {conversation ? <Log conversation={conversation} agent={agent} /> : <p className="muted">{t("agents.tryEmpty", { agent: label })}</p>}
        </div>
        <form
          className={styles.trialBox}
          onSubmit={(event) => {
            event.preventDefault();
            void send();
          }}
        >
          <textarea aria-label={t("chat.composer")} placeholder={t("chat.placeholder", { agent: label })} rows={2} value={text} onChange={(event) => setText(event.target.value)} onKeyDown={onKeyDown} />
          <IconButton label={t("chat.send")} type="submit" isDisabled={!text.trim()}>
            <SendHorizontal aria-hidden="true" size={18} />
          </IconButton>
        </form>
        <FormError text={problem} />
        {conversation && (
          <Link className="small" to={paths.chat(agent.project_id, conversation.id)}>
            {t("agents.tryOpen")}
          </Link>
        )}
      </div>
    </SidePanel>
  );
}

function Log({ conversation, agent }: { conversation: Conversation; agent: Agent }) {
  const t = useT();
  const [select] = useState(createRows);
  const rows = useSelected(conversation.store, select);
  const isWorking = useSelected(conversation.store, (state) => Object.keys(state.turns).length > 0);
  const isWaiting = useSelected(conversation.store, (state) => state.approvals.length > 0);
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // In braces: some browsers return a promise, which React would take for a clean-up.
    end.current?.scrollIntoView({ block: "nearest" });
  }, [rows, isWorking]);
  return (
    <>
      {rows.map((row) => (
        <TrialRow key={row.key} row={row} conversation={conversation} agent={agent} />
      ))}
      {isWaiting && (
        <p className={styles.notice}>
          {t("agents.tryWaits")} <Link to={paths.chat(agent.project_id, conversation.id)}>{t("agents.tryAnswer")}</Link>
        </p>
      )}
      {isWorking && !isWaiting && (
        <p className="row muted small">
          <Spinner /> {t("chat.working", { agent: agentLabel(agent.name) })}
        </p>
      )}
      <div ref={end} />
    </>
  );
}

function TrialRow({ row, conversation, agent }: { row: Row; conversation: Conversation; agent: Agent }) {
  const t = useT();
  const draft = useSelected(conversation.store, (state) => (row.kind === "draft" ? state.drafts[row.messageId]?.text : undefined));
  if (row.kind === "sending") return <p className={styles.said}>{row.sending.content}</p>;
  if (row.kind === "draft") return <Answer agent={agent} text={draft ?? ""} isGrowing />;
  if (row.kind !== "entry") return <p className="muted small">{t("chat.usesTool", { agent: agentLabel(agent.name), tool: visible(toolLabel(row.call.tool)) })}</p>;
  const { entry } = row;
  if (entry.kind === "message") return entry.message.role === "user" ? <p className={`${styles.said ?? ""} data`}>{entry.message.content}</p> : <Answer agent={agent} text={entry.message.content} />;
  if (entry.kind === "tool_call") return <p className="muted small">{t("chat.usesTool", { agent: agentLabel(agent.name), tool: visible(toolLabel(entry.tool_call.tool)) })}</p>;
  if (entry.kind === "notice") return <p className={styles.notice}><Prose text={t("agents.tryFailed", { reason: codeText(entry.notice.code ?? "", entry.text) })} /></p>;
  return null;
}

function Answer({ agent, text, isGrowing = false }: { agent: Agent; text: string; isGrowing?: boolean }) {
  return (
    <article className={styles.answer} aria-busy={isGrowing || undefined}>
      <Avatar agent={agent.name} />
      <Markdown text={text} isGrowing={isGrowing} />
    </article>
  );
}
