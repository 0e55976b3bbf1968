import { Archive, ArrowLeft, ChevronsUpDown, FilePen, Plus, Search, X } from "lucide-react";
import { useDeferredValue, useRef, useState } from "react";
import { call } from "@/api/client";
import { MOST_PROJECTS, firstItems } from "@/api/paging";
import type { Project, Session } from "@/api/types";
import { tOr } from "@/i18n";
import { formatDay } from "@/i18n/format";
import { groupsOf } from "@/state/conversationGroups";
import type { OpenProject } from "@/state/project";
import { seek } from "@/state/session/finding";
import { visible } from "@/state/visible";
import { conversationTitle } from "@/ui/conversationTitle";
import { Button, EndOfList, FormDialog, IconButton, LoadFailed, Menu, type MenuEntry, Skeleton, TextField, classes, textOf } from "@/ui/components";
import { useCell, useHotkey, useList, useResource, useT } from "@/ui/hooks";
import { Link, navigate, useRoute } from "@/ui/router";
import { paths } from "@/ui/routes";
import styles from "./ConversationList.module.css";
import { ConversationMenu } from "./ConversationMenu";
import { ListFoot } from "./ListFoot";

/** The project, a new conversation, search, and all conversations: what waits first, then by day. */
export function ConversationList({ project }: { project: OpenProject }) {
  const t = useT();
  const { sessions, loadedSessions, totalSessions, isLoadingSessions, sessionsProblem } = useCell(project.state);
  const [query, setQuery] = useState("");
  const [isArchive, setArchive] = useState(false);
  const wanted = useDeferredValue(query.trim());
  useHotkey("mod+j", (event) => {
    event.preventDefault();
    navigate(paths.chat(project.id));
  });
  const list = useRef<HTMLDivElement>(null);
  const step = (event: KeyboardEvent, by: 1 | -1) => {
    // A list of choices has these keys for itself, and what is behind a dialog is not to change.
    if (event.defaultPrevented || event.target instanceof HTMLSelectElement || document.querySelector("dialog:modal")) return;
    const links = [...(list.current?.querySelectorAll<HTMLAnchorElement>("li a") ?? [])].filter((link) => link.checkVisibility());
    if (!links.length) return;
    event.preventDefault();
    const now = links.findIndex((link) => link.ariaCurrent === "page");
    const next = links[now < 0 ? 0 : now + by];
    next?.scrollIntoView({ block: "nearest" });
    next?.click();
  };
  useHotkey("alt+ArrowUp", (event) => step(event, -1));
  useHotkey("alt+ArrowDown", (event) => step(event, 1));
  return (
    <>
      <div className={styles.head}>
        <ProjectSwitcher project={project} />
        <Button onClick={() => navigate(paths.chat(project.id))}>
          <Plus aria-hidden="true" size={16} />
          {t("chat.newConversation")}
        </Button>
        <SearchField query={query} setQuery={setQuery} />
      </div>
      <div ref={list} className={styles.scroll}>
        {wanted ? (
          <FoundList project={project} query={wanted} />
        ) : isArchive ? (
          <ArchivedList project={project} back={() => setArchive(false)} />
        ) : (
          <>
            {sessions.length === 0 && <p className={classes(styles.empty, "muted", "small")}>{t("chat.noConversations")}</p>}
            <Groups sessions={sessions} project={project} />
            <EndOfList shown={loadedSessions} total={totalSessions} isLoading={isLoadingSessions} problem={sessionsProblem} more={() => project.loadMoreSessions()} />
            <button type="button" className={styles.chip} onClick={() => setArchive(true)}>
              <Archive aria-hidden="true" size={14} />
              {t("chat.archived")}
            </button>
          </>
        )}
      </div>
      <ListFoot project={project} />
    </>
  );
}

function SearchField({ query, setQuery }: { query: string; setQuery: (query: string) => void }) {
  const t = useT();
  return (
    <div className={styles.search} role="search">
      <Search aria-hidden="true" size={15} />
      <input
        type="search"
        aria-label={t("chat.searchConversations")}
        placeholder={t("common.search")}
        maxLength={200}
        value={query}
        onChange={(event) => setQuery(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && setQuery("")}
      />
      {query && (
        <IconButton label={t("chat.clearSearch")} className={styles.menu} onClick={() => setQuery("")}>
          <X aria-hidden="true" size={14} />
        </IconButton>
      )}
    </div>
  );
}

function Groups({ sessions, project, onChange }: { sessions: readonly Session[]; project: OpenProject; onChange?: () => void }) {
  const t = useT();
  return groupsOf(sessions, formatDay).map(({ kind, at, sessions: group }) => {
    const name = kind === "waiting" ? t("chat.waitsForYou") : kind === "pinned" ? t("chat.pinned") : formatDay(at);
    return (
      <section key={name} aria-label={name}>
        <h2 className={styles.day}>{name}</h2>
        <ul role="list">
          {group.map((session) => (
            <Row key={session.session_id} session={session} project={project} onChange={onChange} />
          ))}
        </ul>
      </section>
    );
  });
}

function Row({ session, project, onChange }: { session: Session; project: OpenProject; onChange: (() => void) | undefined }) {
  const t = useT();
  const route = useRoute();
  const { session_id: id, title, state, changed_files: changed } = session;
  const isCurrent = route?.page === "chat" && route.id === id;
  return (
    <li className={styles.row}>
      <Link to={paths.chat(project.id, id)} className={styles.item} aria-current={isCurrent ? "page" : undefined}>
        {state !== "idle" && <span className={classes(styles.dot, styles[state])} role="img" aria-label={tOr(`chat.state_${state}`, state)} />}
        <span className={classes(styles.title, "ellipsis", "data")} title={conversationTitle(title)}>
          {conversationTitle(title)}
        </span>
        {changed > 0 && (
          <span className={styles.count} role="img" aria-label={t("chat.changedFiles", { count: changed })}>
            <FilePen aria-hidden="true" size={13} />
            {changed}
          </span>
        )}
      </Link>
      <ConversationMenu session={session} project={project} className={styles.menu} {...(onChange ? { onChange } : {})} />
    </li>
  );
}

function ArchivedList({ project, back }: { project: OpenProject; back: () => void }) {
  const t = useT();
  const { hidden } = useCell(project.state);
  const { data, problem, isLoading, reload, more, moreProblem } = useList(
    `archived ${project.id}`,
    (page, signal) => call("GET /my/chat/sessions", { query: { project_id: project.id, archived: true, ...page } }, { signal }),
    ({ session_id }) => session_id,
  );
  const shown = data?.items.filter(({ session_id }) => !hidden.has(session_id));
  return (
    <>
      <button type="button" className={styles.chip} onClick={back}>
        <ArrowLeft aria-hidden="true" size={14} />
        {t("chat.backToList")}
      </button>
      {problem && <LoadFailed problem={problem} retry={reload} />}
      {!data && !problem && <Skeleton lines={3} />}
      {shown?.length === 0 && <p className={classes(styles.empty, "muted", "small")}>{t("chat.noArchived")}</p>}
      {shown && <Groups sessions={shown} project={project} onChange={reload} />}
      {data && <EndOfList shown={data.items.length} total={data.total} isLoading={isLoading} problem={moreProblem} more={more} />}
    </>
  );
}

/** Messages and titles with a word. */
function FoundList({ project, query }: { project: OpenProject; query: string }) {
  const t = useT();
  const { hidden } = useCell(project.state);
  const { data, problem, reload } = useResource(`search ${query}`, () => call("GET /my/search", { query: { q: query, limit: 50 } }));
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton lines={3} />;
  // Of this project first.
  const found = data.items.filter(({ session_id }) => !hidden.has(session_id)).toSorted((one, other) => Number(other.project_id === project.id) - Number(one.project_id === project.id));
  if (!found.length) return <p className={classes(styles.empty, "muted", "small")}>{t("chat.nothingFound", { query })}</p>;
  return (
    <ul role="list" aria-label={t("chat.searchConversations")}>
      {found.map((hit) => (
        <li key={`${hit.kind} ${hit.message_id ?? hit.session_id}`}>
          <Link to={paths.chat(hit.project_id, hit.session_id)} className={styles.found} onClick={() => hit.message_id !== null && seek(hit.session_id, hit.message_id)}>
            <span className="ellipsis data">{visible(hit.title)}</span>
            {hit.kind === "message" && <span className={classes(styles.excerpt, "data")}>{visible(hit.text, "\n\t")}</span>}
          </Link>
        </li>
      ))}
    </ul>
  );
}

function ProjectSwitcher({ project }: { project: OpenProject }) {
  const t = useT();
  const { project: opened, phase } = useCell(project.state);
  const { data } = useResource(phase === "loading" ? null : `projects ${opened?.updated_at ?? ""}`, (signal) => firstItems(MOST_PROJECTS, (page) => call("GET /my/projects", { query: page }, { signal })));
  const [isCreating, setCreating] = useState(false);
  const projects: readonly Pick<Project, "id" | "name">[] = data?.items ?? [];
  const entries: MenuEntry[] = [
    ...projects.map(({ id, name }): MenuEntry => ({ label: name, isChecked: id === project.id, run: () => navigate(paths.chat(id)) })),
    { kind: "line" },
    { label: t("shell.newProject"), icon: <Plus aria-hidden="true" size={16} />, run: () => setCreating(true) },
  ];
  const create = async (form: FormData) => {
    const { id } = await call("POST /my/projects", { body: { name: textOf(form, "name") } });
    navigate(paths.chat(id));
  };
  return (
    <>
      <Menu
        label={t("shell.project")}
        entries={entries}
        trigger={
          <Button className={styles.project} kind="quiet">
            <span className="ellipsis data">{opened?.name ?? t("shell.project")}</span>
            <ChevronsUpDown aria-hidden="true" size={16} />
          </Button>
        }
      />
      {isCreating && (
        <FormDialog title={t("shell.newProject")} submitLabel={t("shell.createProject")} onSubmit={create} onClose={() => setCreating(false)}>
          <TextField label={t("shell.newProjectName")} name="name" required maxLength={200} autoFocus autoComplete="off" />
        </FormDialog>
      )}
    </>
  );
}
