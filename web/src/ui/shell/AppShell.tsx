import { X } from "lucide-react";
import { type ReactNode, useEffect, useRef } from "react";
import { preferences, setPreference } from "@/state/preferences";
import { createCell } from "@/state/store";
import { IconButton, Toasts } from "../components";
import { SMALL, useCell, useHotkey, useMedia, useT } from "../hooks";
import { Palette } from "../palette";
import { usePath } from "../router";
import styles from "./AppShell.module.css";
import { ConnectionBar } from "./ConnectionBar";
import { Rail, RailLinks } from "./Rail";

export const drawerOpen = createCell(false);

/**
 * The frame of every page: rail, conversation list, page. On a phone rail and list are in a drawer.
 * `list` is shown beside pages that want it; the drawer always has it.
 */
export function AppShell({ list, isListShown, children }: { list: ReactNode; isListShown: boolean; children: ReactNode }) {
  const t = useT();
  const isPhone = useMedia(SMALL);
  const { listOpen } = useCell(preferences);
  useHotkey("mod+b", (event) => {
    event.preventDefault();
    setPreference("listOpen", !listOpen);
  });
  return (
    <div className={styles.shell}>
      <a className={styles.skip} href="#main" onClick={skipToMain}>
        {t("shell.skip")}
      </a>
      <div className={styles.bar}>
        <ConnectionBar />
      </div>
      {!isPhone && <Rail className={styles.rail} />}
      {!isPhone && isListShown && listOpen && list && (
        <nav className={styles.list} aria-label={t("shell.conversations")}>
          {list}
        </nav>
      )}
      {isPhone && <Drawer list={list} />}
      <main id="main" tabIndex={-1} className={styles.main}>
        {children}
      </main>
      <Toasts />
      <Palette />
    </div>
  );
}

function skipToMain(event: { preventDefault: () => void }): void {
  event.preventDefault(); // the hash of the address is for sign-in codes
  document.getElementById("main")?.focus();
}

function Drawer({ list }: { list: ReactNode }) {
  const t = useT();
  const isOpen = useCell(drawerOpen);
  const path = usePath();
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen]);
  useEffect(() => drawerOpen.set(false), [path]);
  return (
    <dialog ref={dialog} className={styles.drawer} aria-label={t("shell.pages")} onClose={() => drawerOpen.set(false)}>
      <div className={styles.drawerHead}>
        <strong>{t("common.appName")}</strong>
        <IconButton label={t("shell.closeMenu")} onClick={() => drawerOpen.set(false)}>
          <X aria-hidden="true" size={20} />
        </IconButton>
      </div>
      {list && (
        <nav className={styles.drawerList} aria-label={t("shell.conversations")}>
          {list}
        </nav>
      )}
      <nav className={styles.drawerPages} aria-label={t("shell.pages")}>
        <RailLinks isLabelled />
      </nav>
    </dialog>
  );
}
