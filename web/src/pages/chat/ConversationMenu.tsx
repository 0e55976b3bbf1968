import { Archive, ArchiveRestore, Ellipsis, FileJson, FileText, GitFork, Pencil, Pin, PinOff, Search, Trash2 } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import type { Session, SessionChanges } from "@/api/types";
import { problemText } from "@/i18n/problemText";
import type { OpenProject } from "@/state/project";
import { findOpenIn } from "@/state/session/finding";
import { toast, withUndo } from "@/state/toasts";
import { FormDialog, IconButton, Menu, type MenuEntry, TextField, textOf } from "@/ui/components";
import { useT } from "@/ui/hooks";
import { navigate, useRoute } from "@/ui/router";
import { paths } from "@/ui/routes";
import { exportConversation, forkWhole } from "./commands";
import { useAttempt } from "./useAttempt";

interface ConversationMenuProps {
  session: Session;
  project: OpenProject;
  className?: string | undefined;
  /** Where the list is that shows it: what was changed there is loaded again. */
  onChange?: () => void;
}

/** Everything that can be done with a conversation. */
export function ConversationMenu({ session, project, className, onChange }: ConversationMenuProps) {
  const t = useT();
  const { attempt } = useAttempt();
  const route = useRoute();
  const [isRenaming, setRenaming] = useState(false);
  const { session_id: id, title, pinned, archived } = session;
  const change = async (changes: SessionChanges) => {
    const changed = await call("PATCH /my/chat/sessions/{session_id}", { path: { session_id: id }, body: changes });
    if (changed.archived) project.removeSession(id);
    else project.putSession(changed);
    project.reload("sessions");
    onChange?.();
  };
  const leave = () => {
    if (route?.id === id) navigate(paths.chat(project.id), { replace: true });
  };
  const archive = () =>
    attempt(async () => {
      await change({ archived: !archived });
      if (!archived) leave();
    });
  const remove = () => {
    project.hideSession(id);
    leave();
    const show = () => {
      if (!archived) project.putSession(session);
      project.unhideSession(id);
    };
    const run = () =>
      void call("DELETE /my/chat/sessions/{session_id}", { path: { session_id: id } }, { keepalive: true }).catch((failure: unknown) => {
        show();
        toast(problemText(failure), { kind: "error" });
      });
    withUndo(t("chat.deletedToast", { title }), t("common.undo"), run, show);
  };
  const icon = (Sign: typeof Pin) => <Sign aria-hidden="true" size={16} />;
  const find = () => {
    findOpenIn.set(id);
    navigate(paths.chat(project.id, id));
  };
  const entries: MenuEntry[] = [
    { label: t("chat.find"), icon: icon(Search), run: find },
    { label: t("chat.renameTitle"), icon: icon(Pencil), run: () => setRenaming(true) },
    { label: pinned ? t("chat.unpin") : t("chat.pin"), icon: icon(pinned ? PinOff : Pin), run: () => attempt(() => change({ pinned: !pinned })) },
    { label: t("chat.copyConversation"), icon: icon(GitFork), run: () => attempt(() => forkWhole(t, project, id)) },
    { kind: "line" },
    { label: t("chat.exportMarkdown"), icon: icon(FileText), run: () => exportConversation(id, "markdown") },
    { label: t("chat.exportJson"), icon: icon(FileJson), run: () => exportConversation(id, "json") },
    { kind: "line" },
    { label: archived ? t("chat.unarchive") : t("chat.archive"), icon: icon(archived ? ArchiveRestore : Archive), run: archive },
    { label: t("common.delete"), icon: icon(Trash2), isDanger: true, run: remove },
  ];
  return (
    <>
      <Menu
        label={t("chat.menu")}
        align="end"
        entries={entries}
        trigger={
          <IconButton label={t("chat.rowMenu", { title })} className={className}>
            <Ellipsis aria-hidden="true" size={16} />
          </IconButton>
        }
      />
      {isRenaming && (
        <FormDialog title={t("chat.renameTitle")} submitLabel={t("common.save")} onSubmit={(form) => change({ title: textOf(form, "title") })} onClose={() => setRenaming(false)}>
          <TextField label={t("chat.title")} name="title" required maxLength={200} defaultValue={title} autoFocus autoComplete="off" />
        </FormDialog>
      )}
    </>
  );
}
