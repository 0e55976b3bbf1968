// Notices of the browser about questions that wait, if the user wants them.

import { t } from "@/i18n";
import { visible } from "./visible";
import { inbox } from "./inbox";
import { openConversation } from "./openConversation";
import { preferences, setPreference } from "./preferences";

const known = new Set<string>();

/** Return whether the browser can still be asked for the permission. */
export function canAskForNotifications(): boolean {
  return "Notification" in globalThis && Notification.permission !== "denied" && !preferences.get().notifications;
}

/** Ask the browser; return whether it allows notices. Call it from a click only. */
export async function turnOnNotifications(): Promise<boolean> {
  const isAllowed = (await Notification.requestPermission()) === "granted";
  setPreference("notifications", isAllowed);
  return isAllowed;
}

/** Tell the user of new questions, but not of those of the conversation that they look at; return what ends it. */
export function watchForNotifications(open: (path: { projectId: number; sessionId: string }) => void, nameOf: (agent: string) => string): () => void {
  let isFirst = true; // what waited already when the page was opened is no news
  return inbox.subscribe(() => {
    const { pending, isLoaded } = inbox.get();
    if (!isLoaded) return;
    const news = pending.filter(({ id }) => !known.has(id));
    for (const { id } of news) known.add(id);
    if (isFirst) {
      isFirst = false;
      return;
    }
    if (!preferences.get().notifications || !("Notification" in globalThis) || Notification.permission !== "granted") return;
    for (const { id, agent, project_id: projectId, session_id: sessionId, session_title: title } of news) {
      if (document.hasFocus() && openConversation.get()?.id === sessionId) continue;
      const heading = agent === null ? t("decisions.notifyPlan") : t("decisions.notifyTitle", { agent: visible(nameOf(agent)) });
      const notice = new Notification(heading, { body: visible(title ?? ""), tag: id });
      notice.onclick = () => {
        window.focus();
        open({ projectId, sessionId });
        notice.close();
      };
    }
  });
}
