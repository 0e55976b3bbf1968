import { useEffect, useState } from "react";
import { call } from "@/api/client";
import { MOST_PROJECTS, firstItems } from "@/api/paging";
import { Problem } from "@/api/problem";
import { accountState } from "@/state/account";
import { preferences, setPreference } from "@/state/preferences";
import { LoadFailed, Skeleton } from "@/ui/components";
import { useT } from "@/ui/hooks";
import { navigate } from "@/ui/router";
import { paths } from "@/ui/routes";

/** `/`: the last conversation of the last project, else a new conversation. A new account gets its first project. */
export default function Home() {
  const t = useT();
  const [problem, setProblem] = useState<Problem | null>(null);
  const [round, setRound] = useState(0);
  const name = t("shell.defaultProject");
  useEffect(() => {
    const stop = new AbortController();
    const run = async () => {
      try {
        const target = await whereTo(name, stop.signal);
        if (!stop.signal.aborted) navigate(target, { replace: true });
      } catch (failure) {
        if (stop.signal.aborted) return;
        if (!(failure instanceof Problem)) throw failure;
        setProblem(failure);
      }
    };
    void run();
    return () => stop.abort();
  }, [name, round]);
  if (!problem) return <Skeleton />;
  const retry = () => {
    setProblem(null);
    setRound(round + 1);
  };
  return <LoadFailed problem={problem} retry={retry} />;
}

async function whereTo(name: string, signal: AbortSignal): Promise<string> {
  const { items } = await firstItems(MOST_PROJECTS, (page) => call("GET /my/projects", { query: page }, { signal }));
  const last = preferences.get().lastProject;
  const project = items.find(({ id }) => id === last) ?? items.find(({ is_default }) => is_default) ?? items[0];
  if (!project) {
    const { id } = await call("POST /my/projects", { body: { name } }, { signal });
    return isFirstVisit() ? paths.welcome() : paths.chat(id);
  }
  const sessions = await call("GET /my/chat/sessions", { query: { project_id: project.id, limit: 1 } }, { signal });
  return sessions.total === 0 && isFirstVisit() ? paths.welcome() : paths.chat(project.id, sessions.items[0]?.session_id);
}

/** Return whether the first-run page is due: once, as long as no model is configured, for whoever can add one. */
function isFirstVisit(): boolean {
  const state = accountState.get();
  if (preferences.get().welcomed || state.phase !== "signed_in" || !state.account.is_admin || !state.account.demo) return false;
  setPreference("welcomed", true);
  return true;
}
