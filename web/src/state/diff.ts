// Unified diffs, read for a view. Every line of the text is in the result: what a user decides about is shown whole.

export interface DiffLine {
  /** `note` is about the diff itself, such as "No newline at end of file" or where it was cut. */
  kind: "added" | "removed" | "kept" | "note";
  /** Without the sign. */
  text: string;
  /** Line numbers; null if there is none, or the diff does not tell. */
  before: number | null;
  after: number | null;
}

export interface Hunk {
  /** The line with `@@`; empty if there is none. */
  heading: string;
  lines: DiffLine[];
}

export interface FileDiff {
  path: string;
  hunks: Hunk[];
  added: number;
  removed: number;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;
const KINDS: Readonly<Record<string, DiffLine["kind"]>> = { "+": "added", "-": "removed", " ": "kept" };
const MAX_FACTS = 200_000; // characters; longer contents are not drawn

/** Return whether a diff is too long to be drawn. */
export function isTooLong(diff: string): boolean {
  return diff.length > MAX_FACTS;
}

/** Return the files of a diff; `path` is the name of a file that the diff does not name. */
export function parseDiff(diff: string, path = ""): FileDiff[] {
  const lines = diff.replace(/\n$/, "").split("\n");
  if (diff === "") return [];
  const files: FileDiff[] = [];
  const reading = { before: 0, after: 0, leftBefore: 0, leftAfter: 0, counts: false };
  let file: FileDiff | null = null;
  for (let place = 0; place < lines.length; place++) {
    const line = lines[place] ?? "";
    const isInHunk = reading.leftBefore > 0 || reading.leftAfter > 0;
    if (!isInHunk && line.startsWith("--- ") && lines[place + 1]?.startsWith("+++ ") && (file === null || lines[place + 2]?.startsWith("@@"))) {
      file = { path: nameIn(line, lines[place + 1] ?? "") || path, hunks: [], added: 0, removed: 0 };
      files.push(file);
      reading.counts = false;
      place++;
      continue;
    }
    if (file === null) files.push((file = { path, hunks: [], added: 0, removed: 0 }));
    const heading: RegExpExecArray | null = isInHunk ? null : HUNK.exec(line);
    if (heading) {
      file.hunks.push({ heading: line, lines: [] });
      Object.assign(reading, { before: Number(heading[1]), after: Number(heading[3]), counts: true });
      Object.assign(reading, { leftBefore: Number(heading[2] ?? 1), leftAfter: Number(heading[4] ?? 1) });
      continue;
    }
    addLine(file, line, reading);
  }
  // The lines of a deletion that the text leaves out: its heading counts all of them.
  if (file && reading.counts && reading.leftAfter === 0) file.removed += reading.leftBefore;
  return files;
}

function addLine(file: FileDiff, line: string, reading: { before: number; after: number; leftBefore: number; leftAfter: number; counts: boolean }): void {
  const kind = KINDS[line[0] ?? " "] ?? "note";
  if (kind === "added") file.added++;
  if (kind === "removed") file.removed++;
  const isBefore = kind === "removed" || kind === "kept";
  const isAfter = kind === "added" || kind === "kept";
  const read: DiffLine = {
    kind,
    text: kind === "note" ? line : line.slice(1),
    before: reading.counts && isBefore ? reading.before : null,
    after: reading.counts && isAfter ? reading.after : null,
  };
  if (isBefore) Object.assign(reading, { before: reading.before + 1, leftBefore: Math.max(0, reading.leftBefore - 1) });
  if (isAfter) Object.assign(reading, { after: reading.after + 1, leftAfter: Math.max(0, reading.leftAfter - 1) });
  const hunk = file.hunks.at(-1);
  if (hunk) hunk.lines.push(read);
  else file.hunks.push({ heading: "", lines: [read] });
}

function nameIn(before: string, after: string): string {
  const name = (line: string) => line.slice(4).split("\t")[0]?.trim() ?? "";
  const [old, now] = [name(before), name(after)];
  return (now === "/dev/null" ? old : now).replace(/^[ab]\//, "");
}

/** Return how many lines a diff adds and removes. */
export function sizeOf(diff: string): { added: number; removed: number } {
  const files = parseDiff(diff);
  return { added: files.reduce((sum, { added }) => sum + added, 0), removed: files.reduce((sum, { removed }) => sum + removed, 0) };
}

export interface SplitRow {
  left: DiffLine | null;
  right: DiffLine | null;
}

/** Return lines side by side: what was removed stands beside what was added in its place. */
export function splitRows(lines: readonly DiffLine[]): SplitRow[] {
  const rows: SplitRow[] = [];
  let [removed, added]: [DiffLine[], DiffLine[]] = [[], []];
  const flush = () => {
    for (let place = 0; place < Math.max(removed.length, added.length); place++) rows.push({ left: removed[place] ?? null, right: added[place] ?? null });
    [removed, added] = [[], []];
  };
  for (const line of lines) {
    if (line.kind === "removed") {
      if (added.length) flush();
      removed.push(line);
    } else if (line.kind === "added") added.push(line);
    else {
      flush();
      rows.push({ left: line, right: line });
    }
  }
  flush();
  return rows;
}

export interface Stretch {
  lines: DiffLine[];
  /** Unchanged lines far from a change. */
  isFolded: boolean;
}

/** Return the lines in stretches; long runs of unchanged lines are stretches of their own, but for `near` lines at their ends. */
export function foldContext(lines: readonly DiffLine[], near = 3): Stretch[] {
  const stretches: Stretch[] = [];
  let shown: DiffLine[] = [];
  for (let place = 0; place < lines.length; ) {
    let end = place;
    while (lines[end]?.kind === "kept") end++;
    const head = place === 0 ? 0 : near;
    const tail = end === lines.length ? 0 : near;
    if (end - place > head + tail + 3) {
      shown.push(...lines.slice(place, place + head));
      stretches.push({ lines: shown, isFolded: false }, { lines: lines.slice(place + head, end - tail), isFolded: true });
      shown = lines.slice(end - tail, end);
    } else shown.push(...lines.slice(place, end));
    place = end;
    while (place < lines.length && lines[place]?.kind !== "kept") shown.push(...lines.slice(place, ++place));
  }
  stretches.push({ lines: shown, isFolded: false });
  return stretches.filter(({ lines: some }) => some.length);
}
