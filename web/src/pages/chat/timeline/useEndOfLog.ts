import { type RefObject, useEffect, useLayoutEffect, useRef, useState } from "react";

const NEAR_PIXELS = 48;

interface EndOfLog {
  log: RefObject<HTMLDivElement | null>;
  content: RefObject<HTMLDivElement | null>;
  isAtEnd: boolean;
  /** The last block when the reader left the end; null at the end. */
  leftAt: string | null;
  toEnd: () => void;
  onScroll: () => void;
}

/**
 * The one rule of scrolling: stay at the end, unless the reader has gone up; never move what somebody reads.
 * `ownKey` is the message that the reader has just sent: who writes wants to see what comes of it.
 */
export function useEndOfLog(lastKey: string, ownKey: string | null): EndOfLog {
  const log = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const lastTop = useRef(0);
  const [leftAt, setLeftAt] = useState<string | null>(null);
  const scrollToEnd = () => {
    if (log.current) log.current.scrollTop = log.current.scrollHeight;
  };
  const onScroll = () => {
    const element = log.current;
    if (!element) return;
    const isNear = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PIXELS;
    const wentUp = element.scrollTop < lastTop.current - 1;
    lastTop.current = element.scrollTop;
    // Only the reader goes up: text that grows moves the end, and not the place.
    if (isNear) follows.current = true;
    else if (wentUp) follows.current = false;
    setLeftAt((before) => (follows.current ? null : (before ?? lastKey)));
  };
  useLayoutEffect(() => {
    if (follows.current) scrollToEnd();
  }, [lastKey]);
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      if (follows.current) scrollToEnd();
    });
    if (log.current) observer.observe(log.current);
    if (content.current) observer.observe(content.current);
    return () => observer.disconnect();
  }, []);
  const toEnd = () => {
    follows.current = true;
    setLeftAt(null);
    scrollToEnd();
  };
  useEffect(() => {
    if (ownKey === null) return;
    follows.current = true;
    scrollToEnd();
  }, [ownKey]);
  return { log, content, isAtEnd: leftAt === null, leftAt, toEnd, onScroll };
}
