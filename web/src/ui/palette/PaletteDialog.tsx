import { Search } from "lucide-react";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { call } from "@/api/client";
import { problemText } from "@/i18n/problemText";
import { seek } from "@/state/session/finding";
import { classes } from "../components";
import { useResource, useT } from "../hooks";
import { navigate } from "../router";
import { paths } from "../routes";
import styles from "./Palette.module.css";
import { type Command, arrange } from "./commands";
import { useCommands } from "./useCommands";

const SETTLE_MS = 250;
const LEAST = 2; // letters that are worth a search

/** Type, choose with the arrow keys, Enter. */
export default function PaletteDialog({ onClose, showShortcuts }: { onClose: () => void; showShortcuts: () => void }) {
  const t = useT();
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState("");
  const [active, setActive] = useState(0);
  const { found, problem } = useFound(typed);
  const groups = arrange([...useCommands(showShortcuts), ...found], typed);
  const all = groups.flatMap(([, commands]) => commands);
  const current = all[Math.min(active, all.length - 1)];
  useEffect(() => {
    const opened = dialog.current;
    const focused = document.activeElement;
    if (!opened?.open) opened?.showModal();
    return () => {
      opened?.close();
      if (focused instanceof HTMLElement && focused.isConnected) focused.focus();
    };
  }, []);
  useEffect(() => {
    // In braces: some browsers return a promise, which React would take for a clean-up.
    dialog.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [current]);
  const choose = (command: Command) => {
    onClose();
    command.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Enter" && current) {
      event.preventDefault();
      choose(current);
    }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined || all.length === 0) return;
    event.preventDefault();
    setActive((Math.min(active, all.length - 1) + step + all.length) % all.length);
  };
  return (
    <dialog
      ref={dialog}
      className={styles.palette}
      aria-label={t("palette.title")}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => event.target === dialog.current && onClose()}
    >
      <div className={styles.box}>
        <label className={styles.typed}>
          <Search aria-hidden="true" size={18} />
          <input
            role="combobox"
            aria-label={t("palette.title")}
            aria-expanded="true"
            aria-controls={`${id}-list`}
            aria-activedescendant={current && `${id}-${current.id}`}
            aria-autocomplete="list"
            placeholder={t("palette.placeholder")}
            autoComplete="off"
            spellCheck={false}
            maxLength={200}
            value={typed}
            onChange={(event) => {
              setTyped(event.target.value);
              setActive(0);
            }}
            onKeyDown={onKeyDown}
          />
        </label>
        <div className={styles.list} role="listbox" id={`${id}-list`} aria-label={t("palette.results")}>
          {groups.map(([group, commands]) => (
            <div key={group} role="group" aria-label={t(`palette.group_${group}`)}>
              <div className={styles.group} aria-hidden="true">
                {t(`palette.group_${group}`)}
              </div>
              {commands.map((command) => (
                <Choice key={command.id} id={`${id}-${command.id}`} command={command} isActive={command === current} choose={() => choose(command)} />
              ))}
            </div>
          ))}
        </div>
        {all.length === 0 && <p className={styles.nothing}>{t("palette.nothing")}</p>}
        {problem && <p className={styles.nothing}>{t("palette.searchFailed", { reason: problemText(problem) })}</p>}
        <p className="unseen" role="status">
          {t("palette.count", { count: all.length })}
        </p>
      </div>
    </dialog>
  );
}

function Choice({ id, command, isActive, choose }: { id: string; command: Command; isActive: boolean; choose: () => void }) {
  return (
    <div id={id} role="option" aria-selected={isActive} className={classes(styles.choice, isActive && styles.active)} onClick={choose}>
      <span className="ellipsis data">{command.label}</span>
      {command.hint && <span className={classes(styles.hint, "ellipsis", "data")}>{command.hint}</span>}
      {command.keys && (
        <span className={styles.shortcut} aria-hidden="true">
          {command.keys.map((key) => (
            <kbd key={key} className={styles.key}>
              {key}
            </kbd>
          ))}
        </span>
      )}
    </div>
  );
}

/** Conversations of all projects that contain what was typed, a moment after the last key. */
function useFound(typed: string) {
  const [query, setQuery] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setQuery(typed.trim()), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  const isSearched = query.length >= LEAST;
  const { data, problem } = useResource(isSearched ? `search ${query}` : null, (signal) => call("GET /my/search", { query: { q: query, limit: 8 } }, { signal }));
  const items = isSearched ? (data?.items ?? []) : [];
  const found = items.map(
    ({ session_id, project_id, message_id, title, text }): Command => ({
      id: `found-${session_id}-${message_id ?? ""}`,
      group: "found",
      label: title,
      ...(message_id === null ? {} : { hint: text }),
      run: () => {
        if (message_id !== null) seek(session_id, message_id);
        navigate(paths.chat(project_id, session_id));
      },
    }),
  );
  return { found, problem };
}
