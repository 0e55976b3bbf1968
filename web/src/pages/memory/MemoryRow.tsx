import { Ellipsis, Pin } from "lucide-react";
import { useId, useState } from "react";
import { call } from "@/api/client";
import { tOr } from "@/i18n";
import { formatPercent } from "@/i18n/format";
import { problemText } from "@/i18n/problemText";
import { toast, withUndo } from "@/state/toasts";
import { Avatar, Button, FormDialog, IconButton, Menu, Moment, TextArea, classes, textOf } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useProject, useT } from "@/ui/hooks";
import styles from "./Memory.module.css";
import type { Shown } from "./memories";

const [SHORT_CHARACTERS, SHORT_LINES] = [320, 4];

/** Whether a text is folded at first. */
function isLong(text: string): boolean {
  return text.length > SHORT_CHARACTERS || text.split("\n").length > SHORT_LINES;
}

interface RowProps {
  memory: Shown;
  replace: (changed: Shown) => void;
  setMemories: (change: (before: Shown[]) => Shown[]) => void;
}

export function MemoryRow({ memory, replace, setMemories }: RowProps) {
  const t = useT();
  const project = useProject();
  const textId = useId();
  const [isEditing, setEditing] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const path = { project_id: project.id, agent_id: memory.agent_id, memory_id: memory.id };
  const failed = (failure: unknown) => toast(problemText(failure), { kind: "error" });
  const change = async (body: { content?: string; pinned?: boolean }) => {
    const changed = await call("PATCH /my/projects/{project_id}/agents/{agent_id}/context/{memory_id}", { path, body });
    replace({ ...memory, ...changed });
  };
  const forget = () => {
    let place = 0;
    setMemories((before) => {
      place = before.findIndex(({ id }) => id === memory.id);
      return before.filter(({ id }) => id !== memory.id);
    });
    const putBack = () => setMemories((before) => (before.some(({ id }) => id === memory.id) ? before : before.toSpliced(place, 0, memory)));
    const run = () =>
      void call("DELETE /my/projects/{project_id}/agents/{agent_id}/context/{memory_id}", { path }, { keepalive: true }).catch((failure: unknown) => {
        putBack();
        failed(failure);
      });
    withUndo(t("memory.forgotten"), t("common.undo"), run, putBack);
  };
  return (
    <li className={styles.row}>
      <Avatar agent={memory.agent} />
      <div className={styles.text}>
        <p id={textId} className={classes(styles.content, !isOpen && styles.folded)}>
          <span className="data">{memory.content}</span>
        </p>
        {isLong(memory.content) && (
          <Button kind="link" className={styles.more} aria-expanded={isOpen} aria-controls={textId} onClick={() => setOpen(!isOpen)}>
            {isOpen ? t("memory.less") : t("memory.all")}
          </Button>
        )}
        <p className={styles.about}>
          {memory.pinned && (
            <span className={styles.pinned}>
              <Pin aria-hidden="true" size={12} />
              {t("memory.pinned")}
            </span>
          )}
          <span className="data">{agentLabel(memory.agent)}</span>
          <span className="data">{tOr(`memory.kind_${memory.type}`, memory.type)}</span>
          <Moment at={memory.created_at} />
          {memory.edited_at && <span>{t("memory.edited")}</span>}
          {!memory.success && <span>{t("memory.unsuccessful")}</span>}
          {memory.score !== null && <span>{t("memory.score", { share: formatPercent(memory.score) })}</span>}
        </p>
      </div>
      <Menu
        label={t("memory.actions")}
        align="end"
        entries={[
          { label: memory.pinned ? t("memory.unpin") : t("memory.pin"), run: () => void change({ pinned: !memory.pinned }).catch(failed) },
          { label: t("memory.edit"), run: () => setEditing(true) },
          { kind: "line" },
          { label: t("memory.forget"), isDanger: true, run: forget },
        ]}
        trigger={
          <IconButton label={t("memory.actions")}>
            <Ellipsis aria-hidden="true" size={18} />
          </IconButton>
        }
      />
      {isEditing && (
        <FormDialog title={t("memory.editTitle")} submitLabel={t("common.save")} onSubmit={(form) => change({ content: textOf(form, "content").trim() })} onClose={() => setEditing(false)}>
          <TextArea label={t("memory.content")} name="content" required rows={6} maxLength={100_000} defaultValue={memory.content} />
        </FormDialog>
      )}
    </li>
  );
}
