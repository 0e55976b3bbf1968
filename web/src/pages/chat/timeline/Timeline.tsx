import { ArrowDown, ChevronRight } from "lucide-react";
import { memo, useEffect, useMemo, useRef } from "react";
import { type Block, createBlocks } from "@/state/session/blocks";
import { findOpenIn, holds, sought } from "@/state/session/finding";
import { createRows } from "@/state/session/rows";
import { agentLabel } from "@/ui/agents";
import { Button, Skeleton, Spinner, classes } from "@/ui/components";
import { useCell, useProjectState, useSelected, useT } from "@/ui/hooks";
import { FindBar } from "../FindBar";
import { useChat } from "../chatContext";
import { ActivityLine } from "./ActivityLine";
import { Answer } from "./Answer";
import { ChangeLine, DecisionLine } from "./ChangeLine";
import { NoticeLine } from "./NoticeLine";
import { PlanLine } from "./PlanLine";
import styles from "./Timeline.module.css";
import { SendingMessage, UserMessage } from "./UserMessage";
import { VirtualBlocks } from "./VirtualBlocks";
import { useEndOfLog } from "./useEndOfLog";

const VIRTUAL_FROM = 200;
const EARLIER_PIXELS = 600;

/** Everything that happened in a conversation, oldest first; follows the end unless the reader has gone up. */
export function Timeline({ isLoading }: { isLoading: boolean }) {
  const { conversation } = useChat();
  const isEmpty = useSelected(conversation.store, ({ items, sending }) => !sending.length && !Object.keys(items).length);
  return isLoading && isEmpty ? <LogSkeleton /> : <Log />;
}

function Log() {
  const t = useT();
  const { conversation } = useChat();
  const selectBlocks = useMemo(() => createBlocks(createRows()), []);
  const blocks = useSelected(conversation.store, selectBlocks);
  const firstOffset = useSelected(conversation.store, (state) => state.firstOffset);
  const lastKey = blocks.at(-1)?.key ?? "";
  const ownKey = useSelected(conversation.store, (state) => state.sending.at(-1)?.key ?? null);
  const { log, content, isAtEnd, leftAt, toEnd, leave, isFollowing, onScroll } = useEndOfLog(lastKey, ownKey);
  // Also while only the end of a long conversation is loaded: a change of the list would move what is read.
  const isVirtual = firstOffset + blocks.length > VIRTUAL_FROM;
  useEarlier(log, blocks[0]?.key ?? "", firstOffset, isVirtual, async () => {
    if (!isFollowing()) await conversation.loadEarlier();
  });
  const found = useSought(blocks, log, leave);
  const isFinding = useCell(findOpenIn) === conversation.id;
  const fresh = leftAt === null ? 0 : blocks.length - 1 - blocks.findLastIndex(({ key }) => key === leftAt);
  return (
    <div className={styles.logFrame}>
      {isFinding && <FindBar conversation={conversation} />}
      {/* Scrollable by keyboard, hence the tab stop. Whole answers are announced, not each word. */}
      <div ref={log} className={styles.log} role="log" aria-live="off" aria-label={t("chat.messages")} tabIndex={0} onScroll={onScroll}>
        <div ref={content}>
          {firstOffset > 0 && (
            <div className={styles.earlier}>
              <Button kind="quiet" size="small" onClick={() => void conversation.loadEarlier()}>
                {t("chat.earlier")}
              </Button>
            </div>
          )}
          {isVirtual ? (
            <VirtualBlocks blocks={blocks} log={log} found={found} />
          ) : (
            <div className={styles.rows}>
              {blocks.map((block, place) => (
                <div key={block.key} className={classes(styles.row, place === found && styles.found)} data-found={place === found || undefined}>
                  <BlockView block={block} isLast={place === blocks.length - 1} />
                </div>
              ))}
            </div>
          )}
          <Work />
        </div>
      </div>
      <Announcer />
      {!isAtEnd && (
        <Button className={styles.toEnd} onClick={toEnd}>
          <ArrowDown aria-hidden="true" size={16} />
          {fresh > 0 ? t("chat.fresh", { count: fresh }) : t("chat.toEnd")}
        </Button>
      )}
    </div>
  );
}

/** Load the message that is sought, scroll to it once, and return the place of its block; -1 if there is none. */
function useSought(blocks: readonly Block[], log: React.RefObject<HTMLDivElement | null>, leave: () => void): number {
  const { conversation } = useChat();
  const wanted = useCell(sought);
  const messageId = wanted?.sessionId === conversation.id ? wanted.messageId : null;
  const number = wanted?.number ?? 0;
  const place = messageId === null ? -1 : blocks.findIndex((block) => holds(block, messageId));
  const shown = useRef(0);
  const leaveEnd = useRef(leave);
  useEffect(() => {
    leaveEnd.current = leave;
  });
  useEffect(() => {
    if (messageId !== null) void conversation.loadBackTo(messageId);
  }, [conversation, messageId, number]);
  useEffect(() => {
    if (place < 0 || shown.current === number) return;
    shown.current = number;
    leaveEnd.current();
    log.current?.querySelector("[data-found]")?.scrollIntoView({ block: "center" });
  }, [log, place, number]);
  useEffect(() => () => sought.set((before) => (before?.sessionId === conversation.id ? null : before)), [conversation]);
  return place;
}

/** Load older entries when the reader comes near the first one, and leave what is read where it is. */
function useEarlier(log: React.RefObject<HTMLDivElement | null>, firstKey: string, firstOffset: number, isVirtual: boolean, load: () => Promise<void>): void {
  const latest = useRef(load);
  useEffect(() => {
    latest.current = load;
  });
  useEffect(() => {
    const element = log.current;
    if (!element || firstOffset === 0) return;
    const look = () => {
      if (element.scrollTop > EARLIER_PIXELS || element.scrollHeight <= element.clientHeight) return;
      const fromEnd = element.scrollHeight - element.scrollTop;
      void latest.current().then(() => {
        // The virtual list keeps the place by itself, and so do browsers with scroll anchoring, but at the very top.
        requestAnimationFrame(() => {
          if (!isVirtual && Math.abs(element.scrollHeight - element.scrollTop - fromEnd) > 1) element.scrollTop = element.scrollHeight - fromEnd;
        });
      });
    };
    element.addEventListener("scroll", look, { passive: true });
    return () => element.removeEventListener("scroll", look);
  }, [log, firstKey, firstOffset, isVirtual]);
}

export const BlockView = memo(function BlockView({ block, isLast, isFolded = false }: { block: Block; isLast: boolean; isFolded?: boolean }) {
  switch (block.kind) {
    case "user":
      return <UserMessage entry={block.entry} isFolded={isFolded} />;
    case "sending":
      return <SendingMessage sending={block.sending} />;
    case "answer":
      return <Answer parts={block.parts} draftId={block.draftId} turnId={block.turnId} isLast={isLast} isFolded={isFolded} />;
    case "activity":
      return <ActivityLine calls={block.calls} live={block.live} />;
    case "change":
      return <ChangeLine entry={block.entry} decision={block.decision} />;
    case "decision":
      return <DecisionLine entry={block.entry} />;
    case "plan":
      return <PlanLine entry={block.entry} />;
    case "notice":
      return <NoticeLine entry={block.entry} isCutOff={block.isCutOff} isFolded={isFolded} />;
    case "earlier":
      return <EarlierVersion blocks={block.blocks} />;
  }
});

/** A message that was sent again later, with its answer; folded. */
function EarlierVersion({ blocks }: { blocks: readonly Block[] }) {
  const t = useT();
  const wanted = useCell(sought)?.messageId;
  return (
    <details className={styles.activity} open={wanted !== undefined && blocks.some((block) => holds(block, wanted))}>
      <summary className={styles.line}>
        <ChevronRight aria-hidden="true" size={14} className={styles.chevron} />
        {t("chat.earlierVersion")}
      </summary>
      <div className={styles.foldedRows}>
        {blocks.map((block) => (
          <BlockView key={block.key} block={block} isLast={false} isFolded />
        ))}
      </div>
    </details>
  );
}

function LogSkeleton() {
  return (
    <div className={styles.skeleton}>
      <Skeleton lines={6} />
    </div>
  );
}

/** The last answer or notice that came, for screen readers. */
function Announcer() {
  const t = useT();
  const { project } = useProjectState();
  const { conversation } = useChat();
  const announced = useCell(conversation.announced);
  const name = project?.agents.find((agent) => agent.id === announced?.agentId)?.name;
  return (
    <div className="unseen" aria-live="polite" aria-atomic="true">
      {announced && <p key={announced.number}>{name ? t("chat.says", { agent: agentLabel(name), text: announced.content }) : announced.content}</p>}
    </div>
  );
}

/** Who is at work. */
function Work() {
  const t = useT();
  const { project } = useProjectState();
  const { conversation } = useChat();
  const turns = useSelected(conversation.store, (state) => state.turns);
  const open = Object.values(turns);
  const running = open.find(({ status }) => status === "running");
  const waiting = open.some(({ status }) => status === "waiting");
  const name = project?.agents.find((agent) => agent.id === running?.agentId)?.name;
  const words = waiting
    ? t("chat.waitingForYou")
    : running && (running.phase === "planning" ? t("chat.planning") : t("chat.working", { agent: name ? agentLabel(name) : t("chat.team") }));
  return (
    <div className={styles.work} role="status">
      {running && !waiting && <Spinner />}
      {words}
    </div>
  );
}
