import { useEffect, useState } from "react";
import { call } from "@/api/client";
import { Problem } from "@/api/problem";
import type { Agent } from "@/api/types";
import type { Token } from "@/state/completion";
import { agentHandle, agentLabel } from "@/ui/agents";
import type { Command } from "./commands";

const MAX_SHOWN = 12;
const PAUSE_MS = 150;

export type Completion =
  | { kind: "agent"; key: string; label: string; value: string; agent: string }
  | { kind: "file"; key: string; label: string; value: string }
  | { kind: "command"; key: string; label: string; value: string; hint: string; takesText: boolean };

/** Return what completes a token: agents, files of the connected folder, commands. */
export function useCompletions(token: Token | null, projectId: number, agents: readonly Agent[], commands: readonly Command[], hasFolder: boolean): readonly Completion[] {
  const word = token?.word.toLowerCase() ?? "";
  const files = useFiles(token?.kind === "mention" && hasFolder && word !== "" ? word : null, projectId);
  if (!token) return [];
  if (token.kind === "command") {
    const found = commands.filter(({ name }) => name.startsWith(word));
    return found.map(({ name, hint, takesText }) => ({ kind: "command", key: `/${name}`, label: `/${name}`, value: `/${name}`, hint, takesText }));
  }
  const named = agents.filter(({ name }) => agentHandle(name).toLowerCase().includes(word) || agentLabel(name).toLowerCase().includes(word));
  const people = named.map(({ name }): Completion => ({ kind: "agent", key: `@${name}`, label: agentLabel(name), value: `@${agentHandle(name)}`, agent: name }));
  const paths = files.map((path): Completion => ({ kind: "file", key: path, label: path, value: `\`${path}\`` }));
  return [...people, ...paths].slice(0, MAX_SHOWN);
}

function useFiles(word: string | null, projectId: number): readonly string[] {
  const [found, setFound] = useState<{ word: string; files: readonly string[] }>({ word: "", files: [] });
  useEffect(() => {
    if (word === null) return;
    let isOld = false;
    const timer = setTimeout(() => {
      call("GET /my/projects/{project_id}/connector/files", { path: { project_id: projectId }, query: { q: word, limit: MAX_SHOWN } })
        .then(({ items }) => !isOld && setFound({ word, files: items.map(({ path }) => path) }))
        .catch((failure: unknown) => {
          // Without a folder there is nothing to complete.
          if (!(failure instanceof Problem)) throw failure;
        });
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      isOld = true;
    };
  }, [word, projectId]);
  return word !== null && word.startsWith(found.word) ? found.files.filter((path) => path.toLowerCase().includes(word)) : [];
}
