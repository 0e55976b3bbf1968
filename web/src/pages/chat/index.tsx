import { useEffect, useMemo, useRef, useState } from "react";
import type { PageProps } from "@/App";
import { problemText } from "@/i18n/problemText";
import { markSeen } from "@/state/missed";
import { openConversation } from "@/state/openConversation";
import type { Conversation } from "@/state/session/conversation";
import { type FirstMessage, begun, beginnings, moveDraft, newDraft, refusedBeginning, resumeBeginnings, wakeBeginnings } from "@/state/session/beginning";
import { closeFind, findOpenIn } from "@/state/session/finding";
import { showConversation } from "@/state/session/opening";
import { resumeOutboxes } from "@/state/session/outbox";
import { lastFailure } from "@/state/session/rows";
import { memoize } from "@/state/store";
import { toast } from "@/state/toasts";
import { conversationTitle } from "@/ui/conversationTitle";
import { Button, EmptyState, LoadFailed, Skeleton } from "@/ui/components";
import { useCell, useHotkey, useProject, useProjectState, useSelected, useT } from "@/ui/hooks";
import { ConversationPanel } from "@/ui/decisions/ConversationPanel";
import { DecisionBar } from "@/ui/decisions/DecisionBar";
import { navigate } from "@/ui/router";
import { NEW, paths } from "@/ui/routes";
import { PageFrame } from "@/ui/shell";
import { AnswerDetails } from "./AnswerDetails";
import styles from "./Chat.module.css";
import { ChatActions, EditableTitle } from "./ChatHeader";
import { Composer } from "./Composer";
import { ChatContext } from "./chatContext";
import { Welcome } from "./Welcome";
import { Timeline } from "./timeline/Timeline";
import { SendingMessage } from "./timeline/UserMessage";

/** `/p/:project/c/:id`: a conversation, or a new one. */
export default function ChatPage({ route }: PageProps) {
  const id = route.id === NEW ? null : route.id;
  const conversation = useCell(openConversation);
  useEffect(() => showConversation(id), [id]);
  useEffect(() => {
    resumeOutboxes();
    resumeBeginnings();
  }, []);
  if (id === null || conversation === null) return id === null ? <NewConversation /> : <Skeleton />;
  return conversation.id === id ? <OpenedConversation key={id} conversation={conversation} /> : <Skeleton />;
}

function NewConversation() {
  const t = useT();
  const [offer, setOffer] = useState({ number: 0, text: "" });
  const { waiting, round } = useBeginnings();
  return (
    <PageFrame title={t("chat.newConversation")} isFixed hasList>
      <div className={styles.chat}>
        {waiting.length > 0 ? (
          <div className={styles.beginning} role="log" aria-label={t("chat.messages")}>
            {waiting.map((message) => (
              <SendingMessage key={message.at} sending={{ ...message, attachments: [], isDelayed: true }} />
            ))}
          </div>
        ) : (
          <div className={styles.welcome}>
            <Welcome offer={(text) => setOffer(({ number }) => ({ number: number + 1, text }))} />
          </div>
        )}
        {/* What is chosen above is put into the text, and not sent: the user may add to it. */}
        <Composer key={`${offer.number} ${round}`} conversation={null} offered={offer.text} />
      </div>
    </PageFrame>
  );
}

/** Return the messages of this project that wait for a connection; their conversation is opened once it is made. */
function useBeginnings(): { waiting: readonly FirstMessage[]; round: number } {
  const project = useProject();
  const { line } = useProjectState();
  const all = useCell(beginnings);
  const session = useCell(begun);
  const refused = useCell(refusedBeginning);
  const before = useRef({ session, refused });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (line === "open") wakeBeginnings();
  }, [line]);
  useEffect(() => {
    if (session === before.current.session || session?.project_id !== project.id) return;
    before.current.session = session;
    project.putSession(session);
    void moveDraft(newDraft(project.id), `${project.id}.${session.session_id}`).then(() => navigate(paths.chat(project.id, session.session_id), { replace: true }));
  }, [project, session]);
  useEffect(() => {
    if (refused === before.current.refused || refused?.projectId !== project.id) return;
    before.current.refused = refused;
    toast(problemText(refused.problem), { kind: "error" });
    setRound((last) => last + 1); // the composer reads its draft again
  }, [project, refused]);
  return { waiting: all.find(({ projectId }) => projectId === project.id)?.messages ?? [], round };
}

function OpenedConversation({ conversation }: { conversation: Conversation }) {
  const t = useT();
  const { id: projectId } = useProjectState();
  const { phase, problem } = useCell(conversation.progress);
  const title = useSelected(conversation.store, (state) => conversationTitle(state.session?.title ?? ""));
  const isForeign = useSelected(conversation.store, (state) => state.session !== null && state.session.project_id !== projectId);
  const [editing, setEditing] = useState<string | null>(null);
  const project = useProject();
  // Another tab may have renamed it, or the server found a title.
  useEffect(() => project.onEvent((event) => event.type === "session_changed" && event.session_id === conversation.id && conversation.refreshSession()), [project, conversation]);
  useHotkey("mod+shift+f", (event) => {
    event.preventDefault();
    findOpenIn.set(conversation.id);
  });
  useEffect(
    () => () => {
      if (findOpenIn.get() === conversation.id) closeFind();
    },
    [conversation],
  );
  useSeenFailures(conversation);
  const context = useMemo(() => ({ conversation, editing, setEditing }), [conversation, editing]);
  if (isForeign || (phase === "failed" && problem !== null && [404, 422].includes(problem.status))) {
    return (
      <PageFrame title={t("shell.chat")} hasList>
        <EmptyState title={t("errors.conversationGone")}>
          <Button kind="primary" onClick={() => navigate(paths.chat(projectId))}>
            {t("chat.newConversation")}
          </Button>
        </EmptyState>
      </PageFrame>
    );
  }
  const panel = <ConversationPanel conversation={conversation} details={(id) => <AnswerDetails messageId={id} />} />;
  return (
    <ChatContext value={context}>
      <PageFrame title={title || t("shell.chat")} heading={title && <EditableTitle conversation={conversation} />} actions={<ChatActions conversation={conversation} />} panel={panel} isFixed hasList>
        {phase === "failed" && problem ? (
          <LoadFailed problem={problem} retry={() => void conversation.open()} />
        ) : (
          <div className={styles.chat}>
            <Timeline isLoading={phase === "loading"} />
            <DecisionBar conversation={conversation} />
            <Composer conversation={conversation} />
          </div>
        )}
      </PageFrame>
    </ChatContext>
  );
}

/** What failed in a conversation that somebody looks at was not missed. */
function useSeenFailures({ store }: Conversation): void {
  const select = useMemo(() => {
    const find = memoize(lastFailure);
    return ({ items }: ReturnType<typeof store.get>) => find(items);
  }, [store]);
  const turnId = useSelected(store, select);
  useEffect(() => {
    const look = () => {
      if (turnId !== null && !document.hidden) markSeen([turnId]);
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, [turnId]);
}
