import { ChevronDown, ChevronUp, X } from "lucide-react";
import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import { call } from "@/api/client";
import { problemText } from "@/i18n/problemText";
import type { Conversation } from "@/state/session/conversation";
import { closeFind, seek, sought } from "@/state/session/finding";
import { IconButton } from "@/ui/components";
import { useResource, useT } from "@/ui/hooks";
import styles from "./FindBar.module.css";

const SETTLE_MS = 250;
const PAGE = 100;

/** Finds words in the whole conversation, not only in what is loaded: newest match first. */
export function FindBar({ conversation }: { conversation: Conversation }) {
  const t = useT();
  const input = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState("");
  const [query, setQuery] = useState("");
  const [place, setPlace] = useState(0);
  useEffect(() => {
    const timer = setTimeout(() => {
      setQuery(typed.trim());
      setPlace(0);
    }, SETTLE_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  useEffect(() => {
    const focused = document.activeElement;
    input.current?.focus();
    return () => {
      if (focused instanceof HTMLElement && focused.isConnected) focused.focus();
    };
  }, []);
  const offset = Math.floor(place / PAGE) * PAGE;
  const { data, problem } = useResource(query ? `find ${conversation.id} ${offset} ${query}` : null, (signal) =>
    call("GET /my/search", { query: { q: query, session_id: conversation.id, limit: PAGE, offset } }, { signal }),
  );
  const messageId = query ? (data?.items[place - offset]?.message_id ?? null) : null;
  useEffect(() => {
    if (messageId !== null) seek(conversation.id, messageId);
    else sought.set(null);
  }, [conversation, messageId]);
  const count = data?.total ?? 0;
  const step = (by: number) => count > 0 && setPlace((place + by + count) % count);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") closeFind();
    if (event.key === "Enter" || event.key === "Escape") event.preventDefault();
  };
  const words = problem ? problemText(problem) : !query || !data ? "" : count ? t("chat.findCount", { place: place + 1, count }) : t("chat.findNothing");
  return (
    <div className={styles.find} role="search" aria-label={t("chat.find")} onKeyDown={onKeyDown}>
      <input ref={input} className={styles.input} aria-label={t("chat.find")} placeholder={t("chat.find")} autoComplete="off" maxLength={200} value={typed} onChange={(event) => setTyped(event.target.value)} />
      <span className={styles.count} role="status">
        {words}
      </span>
      <IconButton label={t("chat.findOlder")} isDisabled={count < 2} onClick={() => step(1)}>
        <ChevronUp aria-hidden="true" size={16} />
      </IconButton>
      <IconButton label={t("chat.findNewer")} isDisabled={count < 2} onClick={() => step(-1)}>
        <ChevronDown aria-hidden="true" size={16} />
      </IconButton>
      <IconButton label={t("common.close")} onClick={closeFind}>
        <X aria-hidden="true" size={16} />
      </IconButton>
    </div>
  );
}
