import { FilePen } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { Problem } from "@/api/problem";
import type { ChangedFile, TurnChanges } from "@/api/types";
import { t as text, tOr } from "@/i18n";
import { problemText } from "@/i18n/problemText";
import { toast } from "@/state/toasts";
import { type Undoing, redoChanges, undoChanges } from "@/state/undo";
import { visible } from "@/state/visible";
import { agentLabel } from "@/ui/agents";
import { Button, Dialog, EmptyState, EndOfList, LoadFailed, Moment, Prose, Skeleton, classes } from "@/ui/components";
import { ChangeContent } from "@/ui/decisions/Change";
import { CompareActions, CompareContent, useComparison } from "@/ui/decisions/CompareUndo";
import { Question } from "@/ui/decisions/Question";
import { Size } from "@/ui/decisions/Warnings";
import { useAction, useList, useResource, useT } from "@/ui/hooks";
import { Link } from "@/ui/router";
import { paths } from "@/ui/routes";
import styles from "./Files.module.css";

/** What agents changed in the folder, by answer, newest first. */
export function Changes({ projectId }: { projectId: number }) {
  const t = useT();
  const [diff, setDiff] = useState<Shown | null>(null);
  const { data, problem, isLoading, reload, more, moreProblem } = useList(
    `changes ${projectId}`,
    (page, signal) => call("GET /my/projects/{project_id}/changes", { path: { project_id: projectId }, query: page }, { signal }),
    ({ turn_id }) => turn_id,
  );
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton />;
  if (!data.items.length) return <EmptyState title={t("files.noChanges")} text={t("files.noChangesText")} icon={<FilePen aria-hidden="true" size={32} />} />;
  return (
    <div className={styles.list}>
      {data.items.map((turn) => (
        <TurnCard key={turn.turn_id} projectId={projectId} turn={turn} onUndone={reload} onDiff={setDiff} />
      ))}
      <EndOfList shown={data.items.length} total={data.total} isLoading={isLoading} problem={moreProblem} more={more} />
      {diff && <DiffDialog projectId={projectId} shown={diff} onClose={() => setDiff(null)} />}
    </div>
  );
}

interface TurnProps {
  projectId: number;
  turn: TurnChanges;
  onUndone: () => void;
  onDiff: (change: Shown) => void;
}

/** A change whose diff is shown: that of the call, or the question about it. */
interface Shown {
  path: string;
  callId: string | null;
  approvalId: string | null;
}

function TurnCard({ projectId, turn, onUndone, onDiff }: TurnProps) {
  const t = useT();
  const [compared, setCompared] = useState<string | null>(null);
  const of = (path: string | null): Undoing => ({ projectId, turnId: turn.turn_id, path });
  const [conflicts, setConflicts] = useState<readonly string[]>([]);
  const undo = useAction(async (path: string | null) => {
    try {
      const files = await undoChanges(of(path));
      setConflicts(files.filter(({ outcome }) => outcome === "changed_since").map((file) => file.path));
      tell(files);
    } catch (failure) {
      if (path !== null && failure instanceof Problem && failure.code === "undo_refused") setConflicts([path]);
      throw failure;
    }
    onUndone();
  });
  const redo = useAction(async (path: string) => {
    const files = await redoChanges(of(path));
    toast(t("files.redone", { count: files.length }));
    onUndone();
  });
  const isBusy = undo.isBusy || redo.isBusy;
  const problem = undo.problem ?? redo.problem;
  const title = turn.session_title === null ? t("files.deletedConversation") : visible(turn.session_title);
  const left = turn.files.filter(({ undone }) => !undone);
  return (
    <article className={styles.card} aria-label={title}>
      <div className={styles.head}>
        <span className="data">
          {turn.session_id === null || turn.session_title === null ? title : <Link to={paths.chat(projectId, turn.session_id)}>{title}</Link>}
        </span>
        <span className="muted small data">
          {visible(agentLabel(turn.agent))} · <Moment at={turn.at} />
        </span>
        {left.length > 1 && (
          <Button size="small" isBusy={isBusy} onClick={() => void undo.run(null)}>
            {t("files.undoAll")}
          </Button>
        )}
      </div>
      <ul role="list">
        {turn.files.map((file) => (
          <FileRow key={file.path} file={file} isBusy={isBusy} undo={() => void undo.run(file.path)} redo={() => void redo.run(file.path)} compare={conflicts.includes(file.path) ? () => setCompared(file.path) : null} onDiff={onDiff} />
        ))}
      </ul>
      {compared !== null && (
        <CompareDialog
          undoing={of(compared)}
          onDone={() => {
            setCompared(null);
            toast(t("files.restored", { count: 1 }));
            onUndone();
          }}
          onClose={() => setCompared(null)}
        />
      )}
      <p role="alert" className={styles.error}>
        {problem && <Prose text={problemText(problem)} />}
      </p>
    </article>
  );
}

interface RowProps {
  file: ChangedFile;
  isBusy: boolean;
  undo: () => void;
  redo: () => void;
  /** null: it was not changed since, as far as is known. */
  compare: (() => void) | null;
  onDiff: TurnProps["onDiff"];
}

function FileRow({ file, isBusy, undo, redo, compare, onDiff }: RowProps) {
  const t = useT();
  const { path, action, added, removed, undone, approval_id: approvalId, call_id: callId } = file;
  const name = visible(path);
  return (
    <li className={styles.file}>
      <span className={classes(styles.path, "data")}>{name}</span>
      <span className="muted small">{undone ? t("files.undone") : tOr(`files.action_${action}`, action)}</span>
      {added !== null && removed !== null && <Size added={added} removed={removed} />}
      {(callId ?? approvalId) !== null && (
        <Button size="small" aria-label={`${t("files.diff")} ${name}`} onClick={() => onDiff({ path, callId, approvalId })}>
          {t("files.diff")}
        </Button>
      )}
      {!undone && compare && (
        <Button size="small" aria-label={`${t("files.compare")} ${name}`} onClick={compare}>
          {t("files.compare")}
        </Button>
      )}
      <Button size="small" isDisabled={isBusy} aria-label={`${undone ? t("files.redo") : t("files.undo")} ${name}`} onClick={undone ? redo : undo}>
        {undone ? t("files.redo") : t("files.undo")}
      </Button>
    </li>
  );
}

/** Say what became of each file. */
function tell(files: readonly { path: string; outcome: string }[]): void {
  const isBack = ({ outcome }: { outcome: string }) => ["restored", "removed"].includes(outcome);
  const back = files.filter(isBack);
  const kept = files.filter((file) => !isBack(file));
  if (back.length) toast(text("files.restored", { count: back.length }));
  if (kept.length) toast(text("files.notRestored", { paths: visible(kept.map(({ path }) => path).join(", ")) }), { kind: "error" });
}

/** What putting a file back would change now; also if it was changed since. */
function CompareDialog({ undoing, onDone, onClose }: { undoing: Undoing; onDone: () => void; onClose: () => void }) {
  const t = useT();
  const compared = useComparison(undoing, (ifMatch) => undoChanges(undoing, ifMatch), onDone);
  return (
    <Dialog title={t("decisions.panelCompare")} isWide onClose={onClose}>
      <CompareContent compared={compared} />
      <CompareActions compared={compared} />
    </Dialog>
  );
}

function DiffDialog({ projectId, shown: { path, callId, approvalId }, onClose }: { projectId: number; shown: Shown; onClose: () => void }) {
  const t = useT();
  return (
    <Dialog title={t("decisions.diffOf", { path: visible(path) })} isWide onClose={onClose}>
      {callId !== null ? <ChangeContent projectId={projectId} id={callId} /> : <DecidedQuestion id={approvalId ?? ""} />}
    </Dialog>
  );
}

function DecidedQuestion({ id }: { id: string }) {
  const { data, problem, reload } = useResource(`approval ${id}`, (signal) => call("GET /my/approvals/{approval_id}", { path: { approval_id: id } }, { signal }));
  return data ? <Question approval={data} /> : problem ? <LoadFailed problem={problem} retry={reload} /> : <Skeleton />;
}
