import { Columns2, Copy, Rows2, WrapText } from "lucide-react";
import { type ReactNode, memo, useEffect, useMemo, useRef, useState } from "react";
import { formatBytes } from "@/i18n/format";
import { type DiffLine, type FileDiff, type Hunk, foldContext, isTooLong, parseDiff, sizeOf, splitRows } from "@/state/diff";
import { preferences, setPreference } from "@/state/preferences";
import { hiddenIn, visible } from "@/state/visible";
import { copyAndTell } from "@/ui/clipboard";
import { IconButton, classes } from "@/ui/components";
import { useCell, useT } from "@/ui/hooks";
import { Visible } from "@/ui/decisions/Visible";
import { Size } from "@/ui/decisions/Warnings";
import { languageOf } from "./languages";
import styles from "./DiffView.module.css";

type Colour = (text: string, language: string) => ReactNode;
const MAX_COLOURED = 2_000; // characters of a line

/** A unified diff: of one file or several, in one column or two. Hidden characters are marked. */
export function DiffView({ diff, path }: { diff: string; path: string }) {
  const t = useT();
  const { diffSplit, diffWrap } = useCell(preferences);
  const files = useMemo(() => (isTooLong(diff) ? [] : parseDiff(diff, path)), [diff, path]);
  const colour = useColours();
  const view = useRef<HTMLDivElement>(null);
  if (isTooLong(diff)) return <p>{t("decisions.tooLong", { size: formatBytes(diff.length), ...sizeOf(diff) })}</p>;
  const [first] = files;
  const isSingle = files.length === 1;
  return (
    <div ref={view} className={styles.view}>
      <div className={styles.tools}>
        <span className={classes(styles.name, "ellipsis", "data")}>{isSingle && first && visible(first.path)}</span>
        <IconButton label={t("decisions.unified")} isPressed={!diffSplit} onClick={() => setPreference("diffSplit", false)}>
          <Rows2 aria-hidden="true" size={16} />
        </IconButton>
        <IconButton label={t("decisions.split")} isPressed={diffSplit} onClick={() => setPreference("diffSplit", true)}>
          <Columns2 aria-hidden="true" size={16} />
        </IconButton>
        <IconButton label={t("decisions.wrap")} isPressed={diffWrap} onClick={() => setPreference("diffWrap", !diffWrap)}>
          <WrapText aria-hidden="true" size={16} />
        </IconButton>
        <IconButton label={t("decisions.copyPatch")} onClick={() => void copyAndTell(diff)}>
          <Copy aria-hidden="true" size={16} />
        </IconButton>
      </div>
      {!isSingle && <FileTree files={files} go={(place) => view.current?.querySelectorAll("figure")[place]?.scrollIntoView({ block: "start" })} />}
      {files.map((file, place) => (
        <FileView key={place} file={file} isSplit={diffSplit} isWrapped={diffWrap} colour={colour} hasName={!isSingle} />
      ))}
    </div>
  );
}

function FileTree({ files, go }: { files: readonly FileDiff[]; go: (place: number) => void }) {
  const t = useT();
  return (
    <nav className={styles.tree} aria-label={t("decisions.diffFiles")}>
      {files.map(({ path, added, removed }, place) => (
        <button key={place} type="button" className={styles.treeRow} onClick={() => go(place)}>
          <span className="ellipsis data">{visible(path)}</span>
          <Size added={added} removed={removed} />
        </button>
      ))}
    </nav>
  );
}

/** Return what colours lines, once it is loaded. */
function useColours(): Colour | null {
  const [colour, setColour] = useState<Colour | null>(null);
  useEffect(() => {
    let isGone = false;
    void import("./colours").then((loaded) => {
      if (!isGone) setColour(() => loaded.colour);
    });
    return () => {
      isGone = true;
    };
  }, []);
  return colour;
}

interface FileViewProps {
  file: FileDiff;
  isSplit: boolean;
  isWrapped: boolean;
  colour: Colour | null;
  hasName: boolean;
}

const FileView = memo(function FileView({ file, isSplit, isWrapped, colour, hasName }: FileViewProps) {
  const t = useT();
  const language = languageOf(file.path);
  const draw = (text: string) => (colour && language && text.length <= MAX_COLOURED && !hiddenIn(text) ? colour(text, language) : null) ?? <Visible text={text} keep={"\t"} />;
  const label = t("decisions.diffOf", { path: visible(file.path) });
  return (
    <figure className={styles.file}>
      {hasName && <figcaption className={classes(styles.name, "data")}>{visible(file.path)}</figcaption>}
      <div className={styles.scroll} tabIndex={0} role="region" aria-label={label}>
        <table className={classes(styles.table, isSplit && styles.split, isWrapped && styles.wrapped)}>
          {isSplit && <SplitColumns />}
          {file.hunks.map((hunk, place) => (
            <HunkView key={place} hunk={hunk} isSplit={isSplit} draw={draw} />
          ))}
        </table>
      </div>
    </figure>
  );
});

/** The widths of the columns: the first row spans all of them and tells none. */
function SplitColumns() {
  const half = (
    <>
      <col className={styles.numberColumn} />
      <col className={styles.signColumn} />
      <col />
    </>
  );
  return (
    <colgroup>
      {half}
      {half}
    </colgroup>
  );
}

function HunkView({ hunk, isSplit, draw }: { hunk: Hunk; isSplit: boolean; draw: (text: string) => ReactNode }) {
  const t = useT();
  const [open, setOpen] = useState<readonly number[]>([]);
  const stretches = useMemo(() => foldContext(hunk.lines), [hunk]);
  return (
    <tbody>
      {hunk.heading && (
        <tr className={styles.heading}>
          <td colSpan={isSplit ? 6 : 4}>
            <Visible text={hunk.heading} />
          </td>
        </tr>
      )}
      {stretches.map(({ lines, isFolded }, place) =>
        isFolded && !open.includes(place) ? (
          <tr key={place}>
            <td colSpan={isSplit ? 6 : 4}>
              <button type="button" className={styles.fold} onClick={() => setOpen([...open, place])}>
                {t("decisions.unfold", { count: lines.length })}
              </button>
            </td>
          </tr>
        ) : isSplit ? (
          splitRows(lines).map(({ left, right }, row) => (
            <tr key={`${place}.${row}`}>
              <Half line={left} number={left?.before ?? null} draw={draw} />
              <Half line={right} number={right?.after ?? null} draw={draw} />
            </tr>
          ))
        ) : (
          lines.map((line, row) => <Unified key={`${place}.${row}`} line={line} draw={draw} />)
        ),
      )}
    </tbody>
  );
}

const SIGNS: Readonly<Record<DiffLine["kind"], string>> = { added: "+", removed: "-", kept: " ", note: "" };

function Unified({ line, draw }: { line: DiffLine; draw: (text: string) => ReactNode }) {
  return (
    <tr className={classes(styles[line.kind])}>
      <td className={styles.number}>{line.before}</td>
      <td className={styles.number}>{line.after}</td>
      <td className={styles.sign}>{SIGNS[line.kind]}</td>
      <td className={styles.code}>{draw(line.text)}</td>
    </tr>
  );
}

function Half({ line, number, draw }: { line: DiffLine | null; number: number | null; draw: (text: string) => ReactNode }) {
  if (line === null) return <td colSpan={3} className={styles.nothing} />;
  const tone = line.kind === "kept" ? undefined : styles[line.kind];
  return (
    <>
      <td className={classes(styles.number, tone)}>{number}</td>
      <td className={classes(styles.sign, tone)}>{SIGNS[line.kind]}</td>
      <td className={classes(styles.code, tone)}>{draw(line.text)}</td>
    </>
  );
}
