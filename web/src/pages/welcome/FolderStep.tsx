import { CircleCheck } from "lucide-react";
import { useEffect } from "react";
import { call } from "@/api/client";
import { Button, Command, LoadFailed, Skeleton } from "@/ui/components";
import { connectElsewhere, connectHere } from "@/ui/connectCommands";
import { useResource, useT } from "@/ui/hooks";
import styles from "./Welcome.module.css";

const LOOK_EVERY_MS = 3_000;

/** Step 2: the folder that agents work in. It shows by itself when one is connected. */
export function FolderStep({ projectId, onDone }: { projectId: number; onDone: () => void }) {
  const t = useT();
  const { data, problem, reload } = useResource(`welcomeFolder${projectId}`, (signal) => call("GET /my/projects/{project_id}/connector", { path: { project_id: projectId } }, { signal }));
  const isWaiting = data?.online === false;
  useEffect(() => {
    if (!isWaiting) return;
    const timer = setInterval(reload, LOOK_EVERY_MS);
    return () => clearInterval(timer);
  }, [isWaiting, reload]);
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton />;
  const rule = data.read_only ? t("welcome.readOnly") : data.ask ? t("welcome.asks") : t("welcome.neverAsks");
  return (
    <section className="stack" aria-label={t("welcome.folder")}>
      {data.online ? (
        <div className={styles.connected} role="status">
          <CircleCheck aria-hidden="true" size={18} />
          <p className="data">
            {t("welcome.connected", { folder: data.workspace_name ?? "", machine: data.machine ?? "" })} {rule}
          </p>
        </div>
      ) : (
        <>
          <p className="muted">{t("welcome.folderHint")}</p>
          <Commands projectId={projectId} />
          <p className="muted small" role="status">
            {t("welcome.waiting")}
          </p>
        </>
      )}
      {data.online && (
        <details className={styles.other}>
          <summary>{t("welcome.otherFolder")}</summary>
          <div className="stack">
            <Commands projectId={projectId} />
          </div>
        </details>
      )}
      <div className={styles.actions}>
        <Button kind={data.online ? "primary" : "plain"} onClick={onDone}>
          {data.online ? t("welcome.next") : t("welcome.notNow")}
        </Button>
      </div>
    </section>
  );
}

/** How a folder is connected, here and elsewhere. */
function Commands({ projectId }: { projectId: number }) {
  const t = useT();
  return (
    <>
      <h2>{t("welcome.thisMachine")}</h2>
      <Command text={connectHere(projectId)} />
      <h2>{t("welcome.otherMachine")}</h2>
      <Command text={connectElsewhere(projectId).join(" && ")} />
    </>
  );
}
