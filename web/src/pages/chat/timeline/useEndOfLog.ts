import { type RefObject, useEffect, useLayoutEffect, useRef, useState } from "react";

const NEAR_PIXELS = 48;
const GESTURE_MS = 300;
const GESTURES = ["wheel", "touchmove", "keydown", "pointerdown"] as const;

interface EndOfLog {
  log: RefObject<HTMLDivElement | null>;
  content: RefObject<HTMLDivElement | null>;
  isAtEnd: boolean;
  /** The last block when the reader left the end; null at the end. */
  leftAt: string | null;
  toEnd: () => void;
  /** Stay where the reader is taken to. */
  leave: () => void;
  /** Whether the end stays in sight, whatever comes. */
  isFollowing: () => boolean;
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
  const lastHeight = useRef(0);
  const touchedAt = useRef(Number.NEGATIVE_INFINITY);
  const [leftAt, setLeftAt] = useState<string | null>(null);
  const scrollToEnd = () => {
    if (log.current) log.current.scrollTop = log.current.scrollHeight;
  };
  const onScroll = () => {
    const element = log.current;
    if (!element) return;
    const isNear = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PIXELS;
    // Only the reader goes up: a list that learns the heights of its blocks moves too, but changes its height.
    const isReader = element.scrollHeight === lastHeight.current || performance.now() - touchedAt.current < GESTURE_MS;
    const wentUp = element.scrollTop < lastTop.current - 1 && isReader;
    lastTop.current = element.scrollTop;
    lastHeight.current = element.scrollHeight;
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
  useEffect(() => {
    const element = log.current;
    const touched = () => {
      touchedAt.current = performance.now();
    };
    for (const name of GESTURES) element?.addEventListener(name, touched, { passive: true });
    return () => {
      for (const name of GESTURES) element?.removeEventListener(name, touched);
    };
  }, []);
  const toEnd = () => {
    follows.current = true;
    setLeftAt(null);
    scrollToEnd();
  };
  const leave = () => {
    follows.current = false;
    setLeftAt((before) => before ?? lastKey);
  };
  useEffect(() => {
    if (ownKey === null) return;
    follows.current = true;
    scrollToEnd();
  }, [ownKey]);
  return { log, content, isAtEnd: leftAt === null, leftAt, toEnd, leave, isFollowing: () => follows.current, onScroll };
}
