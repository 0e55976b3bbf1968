// What the palette offers, and in which order for what was typed.

export const GROUPS = ["commands", "pages", "conversations", "found", "agents", "projects"] as const;
export type Group = (typeof GROUPS)[number];

export interface Command {
  id: string;
  group: Group;
  label: string;
  /** Shown behind the label, and searched too. */
  hint?: string;
  keys?: readonly string[];
  run: () => void;
}

const MOST = 8; // of one group

/** Return how well a text fits what was typed; 0 if it doesn't. Each word must begin a word, or be inside of one. */
export function fit(text: string, typed: string): number {
  const lower = text.toLocaleLowerCase();
  let total = 1;
  for (const word of typed.toLocaleLowerCase().split(/\s+/).filter(Boolean)) {
    const place = lower.indexOf(word);
    if (place < 0) return 0;
    const isStart = lower.split(/[^\p{L}\p{N}]+/u).some((each) => each.startsWith(word));
    total += place === 0 ? 3 : isStart ? 2 : 1;
  }
  return total;
}

/** Return what fits, by group; a group stands where its best command puts it. Without a text all are shown in their order. */
export function arrange(commands: readonly Command[], typed: string): [Group, Command[]][] {
  const text = typed.trim();
  const fitting = commands
    .map((command) => ({ command, value: command.group === "found" ? 1 : fit(`${command.label} ${command.hint ?? ""}`, text) }))
    .filter(({ value }) => value > 0);
  const groups = GROUPS.map((group) => {
    const own = fitting.filter(({ command }) => command.group === group).sort((one, other) => other.value - one.value);
    return { group, best: own[0]?.value ?? 0, commands: own.slice(0, MOST).map(({ command }) => command) };
  }).filter((each) => each.commands.length > 0);
  if (text) groups.sort((one, other) => other.best - one.best);
  return groups.map(({ group, commands: own }) => [group, own]);
}
