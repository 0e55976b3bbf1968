import { openProject } from "@/state/project";
import { Button } from "../components";
import { useCell, useNow, useT } from "../hooks";
import styles from "./ConnectionBar.module.css";

/** A slim bar while the server can't be reached; says when it is tried again. All streams listen to `online`. */
export function ConnectionBar() {
  const project = useCell(openProject);
  return project && <Line key={project.id} project={project} />;
}

function Line({ project }: { project: NonNullable<ReturnType<typeof openProject.get>> }) {
  const t = useT();
  const { line, retryAt } = useCell(project.state);
  const isLost = line === "lost";
  const now = useNow(1000, isLost);
  const seconds = retryAt === null ? 0 : Math.ceil((retryAt - now) / 1000);
  return (
    <div role="status">
      {isLost && (
        <div className={styles.bar}>
          {seconds > 0 ? t("shell.offlineIn", { seconds }) : t("shell.offline")}{" "}
          {seconds > 1 && (
            <Button kind="link" onClick={() => window.dispatchEvent(new Event("online"))}>
              {t("shell.tryNow")}
            </Button>
          )}
        </div>
      )}
    </div>
  );
}
