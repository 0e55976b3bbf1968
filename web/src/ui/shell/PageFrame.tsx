import { Inbox, Maximize2, Menu as MenuIcon, Minimize2, PanelLeft, X } from "lucide-react";
import { type KeyboardEvent, type PointerEvent, type ReactNode, useEffect } from "react";
import { inbox } from "@/state/inbox";
import { preferences, setPreference } from "@/state/preferences";
import { IconButton, classes } from "../components";
import { SMALL, isField, useCell, useHotkey, useMedia, useT } from "../hooks";
import { navigate } from "../router";
import { paths } from "../routes";
import { drawerOpen } from "./AppShell";
import { CountBadge } from "./CountBadge";
import styles from "./PageFrame.module.css";

interface PageFrameProps {
  /** The name of the page: its heading, and the title of the document. */
  title: string;
  /** Shown instead of the title, such as one that can be edited. */
  heading?: ReactNode;
  /** Buttons at the end of the header. */
  actions?: ReactNode;
  /** A `SidePanel`, or nothing. */
  panel?: ReactNode;
  /** The page arranges itself and scrolls an area of its own; else its content scrolls as a whole. */
  isFixed?: boolean;
  /** The button that hides the conversation list is shown. */
  hasList?: boolean;
  children: ReactNode;
}

/** Header, content and side panel of a page. */
export function PageFrame({ title, heading, actions, panel, isFixed = false, hasList = false, children }: PageFrameProps) {
  const t = useT();
  const isPhone = useMedia(SMALL);
  const { total } = useCell(inbox);
  const { listOpen } = useCell(preferences);
  useEffect(() => {
    document.title = `${total ? `(${total}) ` : ""}${title} – ${t("common.appName")}`;
  }, [t, title, total]);
  return (
    <div className={styles.frame}>
      <div className={styles.page}>
        <header className={styles.header}>
          {isPhone && (
            <IconButton label={t("shell.openMenu")} onClick={() => drawerOpen.set(true)}>
              <MenuIcon aria-hidden="true" size={20} />
            </IconButton>
          )}
          {!isPhone && hasList && (
            <IconButton
              label={listOpen ? t("shell.hideList") : t("shell.showList")}
              hotkey="Ctrl+B"
              isPressed={listOpen}
              onClick={() => setPreference("listOpen", !listOpen)}
            >
              <PanelLeft aria-hidden="true" size={18} />
            </IconButton>
          )}
          <h1 className={classes(styles.title, "ellipsis", "data")}>{heading ?? title}</h1>
          {isPhone && total > 0 && (
            <IconButton className={styles.inbox} label={t("shell.inboxCount", { count: total })} onClick={() => navigate(paths.inbox())}>
              <Inbox aria-hidden="true" size={20} />
              <CountBadge count={total} />
            </IconButton>
          )}
          {actions}
        </header>
        {isFixed ? (
          <div className={styles.fixed}>{children}</div>
        ) : (
          <div className={styles.body}>
            <div className={styles.content}>{children}</div>
          </div>
        )}
      </div>
      {panel}
    </div>
  );
}

const [MIN_WIDTH, MAX_WIDTH, STEP] = [280, 900, 32];

interface SidePanelProps {
  title: ReactNode;
  onClose: () => void;
  footer?: ReactNode;
  /** It covers the page. */
  isFull?: boolean;
  /** Without it there is no button for that. */
  toggleFull?: () => void;
  children: ReactNode;
}

/** The panel at the end of a page; its width is remembered, and its footer never scrolls away. Below 1024 px it covers the page. */
export function SidePanel({ title, onClose, footer, isFull = false, toggleFull, children }: SidePanelProps) {
  const t = useT();
  const { panelWidth } = useCell(preferences);
  useHotkey("mod+.", onClose);
  useHotkey("Escape", (event) => {
    // Fields and what is open above the page have an Escape of their own.
    if (!event.defaultPrevented && !isField(event.target) && !document.querySelector("dialog:modal, [popover=auto]:popover-open")) onClose();
  });
  const setWidth = (width: number) => setPreference("panelWidth", Math.round(Math.min(MAX_WIDTH, Math.max(MIN_WIDTH, width))));
  const drag = (event: PointerEvent<HTMLDivElement>) => {
    if (event.currentTarget.hasPointerCapture(event.pointerId)) setWidth(innerWidth - event.clientX);
  };
  const move = (event: KeyboardEvent) => {
    if (event.key === "ArrowLeft") setWidth(panelWidth + STEP);
    if (event.key === "ArrowRight") setWidth(panelWidth - STEP);
  };
  return (
    <aside className={classes(styles.panel, isFull && styles.full)} style={{ width: panelWidth }} aria-label={t("shell.panel")}>
      <div
        className={styles.handle}
        role="separator"
        aria-orientation="vertical"
        aria-label={t("shell.resizePanel")}
        aria-valuenow={panelWidth}
        aria-valuemin={MIN_WIDTH}
        aria-valuemax={MAX_WIDTH}
        tabIndex={0}
        onKeyDown={move}
        onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
        onPointerMove={drag}
      />
      <div className={styles.panelHead}>
        <h2 className="ellipsis">{title}</h2>
        {toggleFull && (
          <IconButton label={isFull ? t("shell.smallPanel") : t("shell.fullPanel")} className={styles.fullButton} onClick={toggleFull}>
            {isFull ? <Minimize2 aria-hidden="true" size={16} /> : <Maximize2 aria-hidden="true" size={16} />}
          </IconButton>
        )}
        <IconButton label={t("shell.closePanel")} onClick={onClose}>
          <X aria-hidden="true" size={18} />
        </IconButton>
      </div>
      <div className={styles.panelBody}>{children}</div>
      {footer && <div className={styles.panelFoot}>{footer}</div>}
    </aside>
  );
}
