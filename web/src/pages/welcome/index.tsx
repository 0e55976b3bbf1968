import { useEffect, useRef, useState } from "react";
import { call } from "@/api/client";
import { MOST_PROJECTS, firstItems } from "@/api/paging";
import { accountState } from "@/state/account";
import { preferences, setPreference } from "@/state/preferences";
import { Button, LoadFailed, Skeleton } from "@/ui/components";
import { PHONE, useCell, useMedia, useResource, useT } from "@/ui/hooks";
import { navigate } from "@/ui/router";
import { paths } from "@/ui/routes";
import { PageFrame } from "@/ui/shell";
import { FolderStep } from "./FolderStep";
import { ModelStep } from "./ModelStep";
import { TaskStep } from "./TaskStep";
import styles from "./Welcome.module.css";

const STEPS = ["model", "folder", "task"] as const;

/** `/welcome`: the first visit. Model, folder, first task; every step can be skipped. */
export default function WelcomePage() {
  const t = useT();
  const account = useCell(accountState);
  const isAdmin = account.phase === "signed_in" && account.account.is_admin;
  const isPhone = useMedia(PHONE); // beside the title there is no room
  const [place, setPlace] = useState(0);
  const name = t("shell.defaultProject");
  const { data: project, problem, reload } = useResource("firstProject", (signal) => firstProject(name, signal));
  const leave = () => {
    setPreference("welcomed", true);
    navigate(project ? paths.chat(project) : paths.home());
  };
  const step = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (place > 0) step.current?.focus(); // the button that was pressed is gone
  }, [place]);
  const next = () => setPlace(place + 1);
  const labels = { model: t("welcome.model"), folder: t("welcome.folder"), task: t("welcome.task") };
  const skip = (
    <Button kind="quiet" onClick={leave}>
      {t("welcome.lookAround")}
    </Button>
  );
  return (
    <PageFrame title={t("welcome.title")} actions={!isPhone && skip}>
      <div className={styles.wizard}>
        <ol role="list" className={styles.steps} aria-label={t("welcome.steps")}>
          {STEPS.map((each, number) => (
            <li key={each}>
              <button type="button" className={styles.step} aria-current={number === place ? "step" : undefined} onClick={() => setPlace(number)}>
                <span className={styles.number}>{number + 1}</span>
                {labels[each]}
              </button>
            </li>
          ))}
        </ol>
        <div ref={step} tabIndex={-1} role="group" aria-label={labels[STEPS[place] ?? "task"]}>
          {problem && <LoadFailed problem={problem} retry={reload} />}
          {!problem && project === null && <Skeleton />}
          {project !== null && place === 0 && <ModelStep isAdmin={isAdmin} onDone={next} />}
          {project !== null && place === 1 && <FolderStep projectId={project} onDone={next} />}
          {project !== null && place === 2 && <TaskStep projectId={project} onLeave={leave} />}
        </div>
        {isPhone && <div className={styles.skip}>{skip}</div>}
      </div>
    </PageFrame>
  );
}

/** Return the project to begin in; a new account gets its first one. */
async function firstProject(name: string, signal: AbortSignal): Promise<number> {
  const { items } = await firstItems(MOST_PROJECTS, (page) => call("GET /my/projects", { query: page }, { signal }));
  const last = preferences.get().lastProject;
  const project = items.find(({ id }) => id === last) ?? items.find(({ is_default }) => is_default) ?? items[0];
  return project?.id ?? (await call("POST /my/projects", { body: { name } }, { signal })).id;
}
