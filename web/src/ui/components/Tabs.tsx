import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef } from "react";
import { Link } from "../router";
import styles from "./Tabs.module.css";

export interface Tab<Id extends string> {
  id: Id;
  label: string;
}

interface TabsProps<Id extends string> {
  label: string;
  tabs: readonly Tab<Id>[];
  selected: Id;
  onSelect: (id: Id) => void;
  /** The content of the selected tab. */
  children: ReactNode;
}

/** Tabs inside a page or panel: arrow keys choose. For parts of a page with an address of their own use `TabLinks`. */
export function Tabs<Id extends string>({ label, tabs, selected, onSelect, children }: TabsProps<Id>) {
  const base = useId();
  const list = useSelectedInView(selected);
  const move = (event: KeyboardEvent<HTMLElement>) => {
    const now = tabs.findIndex(({ id }) => id === selected);
    const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: tabs.length - 1 }[event.key];
    const tab = next === undefined ? undefined : tabs[(next + tabs.length) % tabs.length];
    if (!tab) return;
    event.preventDefault();
    onSelect(tab.id);
    document.getElementById(`${base}-${tab.id}`)?.focus();
  };
  return (
    <>
      <div ref={list} role="tablist" aria-label={label} className={styles.tabs} onKeyDown={move}>
        {tabs.map(({ id, label: text }) => (
          <button
            key={id}
            id={`${base}-${id}`}
            type="button"
            role="tab"
            className={styles.tab}
            aria-selected={id === selected}
            aria-controls={`${base}-panel`}
            tabIndex={id === selected ? 0 : -1}
            onClick={() => onSelect(id)}
          >
            {text}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${base}-panel`} aria-labelledby={`${base}-${selected}`}>
        {children}
      </div>
    </>
  );
}

/** Tabs that are links: each part has an address. */
export function TabLinks({ label, tabs, selected }: { label: string; tabs: readonly (Tab<string> & { to: string })[]; selected: string }) {
  const list = useSelectedInView(selected);
  return (
    <nav ref={list} aria-label={label} className={styles.tabs}>
      {tabs.map(({ id, label: text, to }) => (
        <Link key={id} to={to} className={styles.tab} aria-current={id === selected ? "page" : undefined}>
          {text}
        </Link>
      ))}
    </nav>
  );
}

/** Scroll the selected tab of a narrow list into view. */
function useSelectedInView(selected: string) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const tab = list.current?.querySelector<HTMLElement>('[aria-selected="true"], [aria-current="page"]');
    if (list.current && tab) list.current.scrollLeft = tab.offsetLeft - (list.current.clientWidth - tab.offsetWidth) / 2;
  }, [selected]);
  return list;
}
