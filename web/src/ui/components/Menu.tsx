import { type KeyboardEvent, type ReactElement, type ReactNode, cloneElement, useId, useRef } from "react";
import { Link } from "../router";
import styles from "./Menu.module.css";
import { classes } from "./classes";
import { placeBeside } from "./placement";

export type MenuEntry =
  | { kind?: "item"; label: string; icon?: ReactNode; run: () => void; isDanger?: boolean; isChecked?: boolean }
  | { kind: "link"; label: string; icon?: ReactNode; to: string; isChecked?: boolean }
  | { kind: "heading"; label: string }
  | { kind: "line" };

interface MenuProps {
  label: string;
  entries: readonly MenuEntry[];
  /** The button that opens it; what connects them is set here. */
  trigger: ReactElement<{ popoverTarget?: string; "aria-haspopup"?: "menu" }>;
  align?: "start" | "end";
}

/** A list of actions that a button opens: arrow keys, Home, End, first letters, Escape; the focus returns to the button. */
export function Menu({ label, entries, trigger, align = "start" }: MenuProps) {
  const id = useId();
  const menu = useRef<HTMLDivElement>(null);
  const items = () => [...(menu.current?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
  const close = () => menu.current?.hidePopover();
  const show = () => {
    const button = document.querySelector(`[popovertarget="${CSS.escape(id)}"]`);
    if (menu.current && button) placeBeside(menu.current, button, align);
    (items().find((item) => item.ariaChecked === "true") ?? items()[0])?.focus();
  };
  const move = (event: KeyboardEvent) => {
    const all = items();
    const now = all.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: all.length - 1 }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      all[(next + all.length) % all.length]?.focus();
    } else if (event.key === "Tab") close();
    else if (event.key.length === 1 && /\S/.test(event.key)) {
      const wanted = event.key.toLowerCase();
      const order = [...all.slice(now + 1), ...all.slice(0, now + 1)];
      order.find((item) => item.textContent.trim().toLowerCase().startsWith(wanted))?.focus();
    }
  };
  return (
    <>
      {cloneElement(trigger, { popoverTarget: id, "aria-haspopup": "menu" })}
      <div
        ref={menu}
        id={id}
        popover="auto"
        role="menu"
        aria-label={label}
        tabIndex={-1}
        className={styles.menu}
        onKeyDown={move}
        // The menu has no size before the event is over; a frame later it has one, and is not painted yet.
        onBeforeToggle={(event) => event.newState === "open" && requestAnimationFrame(show)}
      >
        {entries.map((entry, place) => (
          <MenuRow key={place} entry={entry} close={close} />
        ))}
      </div>
    </>
  );
}

function MenuRow({ entry, close }: { entry: MenuEntry; close: () => void }) {
  if (entry.kind === "line") return <hr className={styles.line} />;
  if (entry.kind === "heading") return <div className={styles.heading}>{entry.label}</div>;
  const role = entry.isChecked === undefined ? "menuitem" : "menuitemradio";
  if (entry.kind === "link") {
    return (
      <Link to={entry.to} role={role} aria-checked={entry.isChecked} tabIndex={-1} className={styles.item} onClick={close}>
        {entry.icon}
        <span className="data">{entry.label}</span>
      </Link>
    );
  }
  return (
    <button
      type="button"
      role={role}
      aria-checked={entry.isChecked}
      tabIndex={-1}
      className={classes(styles.item, entry.isDanger && styles.danger)}
      onClick={() => {
        close();
        entry.run();
      }}
    >
      {entry.icon}
      <span className="data">{entry.label}</span>
    </button>
  );
}
