// Two keys in a row, such as `g a`, and how keys are written.

import { paths } from "../routes";

const PAUSE_MS = 1200;

/** The second key after `g`, and where it goes. Pages of a project need one. */
export const GO: Readonly<Record<string, { name: "chat" | "inbox" | "plans" | "files" | "agents" | "memory" | "activity" | "projectSettings" | "settings"; to: (project: number) => string }>> = {
  c: { name: "chat", to: (project) => paths.chat(project) },
  i: { name: "inbox", to: () => paths.inbox() },
  p: { name: "plans", to: (project) => paths.plans(project) },
  f: { name: "files", to: (project) => paths.files(project) },
  a: { name: "agents", to: (project) => paths.agents(project) },
  m: { name: "memory", to: (project) => paths.memory(project) },
  v: { name: "activity", to: (project) => paths.activity(project) },
  s: { name: "projectSettings", to: (project) => paths.projectSettings(project) },
  ",": { name: "settings", to: () => paths.settings() },
};

/** Return a function that takes keys and returns the one after `g`, if it came soon enough. */
export function createSequence(): (key: string, now: number) => string | null {
  let began = Number.NEGATIVE_INFINITY;
  return (key, now) => {
    const isSecond = now - began <= PAUSE_MS;
    began = !isSecond && key === "g" ? now : Number.NEGATIVE_INFINITY;
    return isSecond ? key : null;
  };
}

/** Return the sign of the key for commands: ⌘ on a Mac. */
export function modSign(): string {
  return /Mac|iPhone|iPad/.test(navigator.userAgent) ? "⌘" : "Ctrl";
}
