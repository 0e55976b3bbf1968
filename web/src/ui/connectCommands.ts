// What is typed in a terminal to connect a folder.

import { hrefOf } from "./router";

/** Return the address of this server, for programs elsewhere. */
export function serverAddress(): string {
  return location.origin + hrefOf("");
}

/** Return the command in a folder of a machine that is logged in. */
export function connectHere(projectId: number): string {
  return `artel connect . --project ${projectId}`;
}

/** Return the commands in a folder of a machine that does not know this server. */
export function connectElsewhere(projectId: number): string[] {
  return ["pip install artel-ai", `artel login --server ${serverAddress()}`, connectHere(projectId)];
}
