import { call, urlOf } from "@/api/client";
import type { Session } from "@/api/types";
import type { T } from "@/i18n";
import { agentHandle } from "@/ui/agents";
import { navigate } from "@/ui/router";
import { paths } from "@/ui/routes";
import type { OpenProject } from "@/state/project";
import type { Conversation } from "@/state/session/conversation";
import { isAgentChange } from "@/state/session/swaps";
import { toast } from "@/state/toasts";

export interface Command {
  name: string;
  hint: string;
  takesText: boolean;
  run: (rest: string) => Promise<void> | void;
}

/** Return the commands of the composer; those that need a conversation only with one. */
export function commandsOf(t: T, project: OpenProject, conversation: Conversation | null, setRecipient: (agent: string | null) => void): readonly Command[] {
  const everywhere: Command[] = [
    { name: "new", hint: t("chat.commandNew"), takesText: false, run: () => navigate(paths.chat(project.id)) },
    {
      name: "agent",
      hint: t("chat.commandAgent"),
      takesText: true,
      run: (rest) => {
        const wanted = rest.replace(/^@/, "").toLowerCase();
        const agent = project.state.get().project?.agents.find(({ name }) => [name.toLowerCase(), agentHandle(name).toLowerCase()].includes(wanted));
        if (wanted && !agent) toast(t("chat.agentGone"), { kind: "error" });
        else setRecipient(agent?.name ?? null);
      },
    },
    { name: "plans", hint: t("chat.commandPlans"), takesText: false, run: () => navigate(paths.plans(project.id)) },
    { name: "memory", hint: t("chat.commandMemory"), takesText: false, run: () => navigate(paths.memory(project.id)) },
  ];
  if (!conversation) return everywhere;
  return [
    ...everywhere,
    {
      name: "rename",
      hint: t("chat.commandRename"),
      takesText: true,
      run: async (rest) => {
        if (rest) await conversation.change({ title: rest });
        project.reload("sessions");
      },
    },
    {
      name: "undo",
      hint: t("chat.commandUndo"),
      takesText: false,
      run: async () => {
        const isChange = Object.values(conversation.store.get().items).filter((item) => isAgentChange(item) && !item.file_change.undone);
        const turn = isChange.toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at)).at(-1)?.turn_id;
        if (turn) await conversation.undo(turn, null);
        else toast(t("chat.nothingToUndo"));
      },
    },
    { name: "fork", hint: t("chat.commandFork"), takesText: false, run: () => forkWhole(t, project, conversation.id) },
    { name: "export", hint: t("chat.commandExport"), takesText: false, run: () => exportConversation(conversation.id, "markdown") },
  ];
}

/** Download a conversation. */
export function exportConversation(sessionId: string, format: "markdown" | "json"): void {
  const link = document.createElement("a");
  link.href = urlOf("/my/chat/sessions/{session_id}/export", { session_id: sessionId }, { format });
  link.download = "";
  link.click();
}

/** Copy a whole conversation and open the copy. */
export async function forkWhole(t: T, project: OpenProject, sessionId: string): Promise<void> {
  const { items } = await call("GET /my/chat/{session_id}/messages", { path: { session_id: sessionId }, query: { last: 20 } });
  const last = items.findLast(({ role, status }) => role !== "system" && status === "ok");
  if (!last) {
    toast(t("chat.nothingToFork"));
    return;
  }
  const session: Session = await call("POST /my/chat/sessions/{session_id}/fork", { path: { session_id: sessionId }, body: { message_id: last.id } });
  project.reload("sessions");
  navigate(paths.chat(session.project_id, session.session_id));
}
