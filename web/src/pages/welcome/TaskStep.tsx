import { setPreference, storeDraft } from "@/state/preferences";
import { Button } from "@/ui/components";
import { useT } from "@/ui/hooks";
import { navigate } from "@/ui/router";
import { NEW, paths } from "@/ui/routes";
import styles from "./Welcome.module.css";

/** Step 3: a first task. It is put into the composer, where it can be read and changed before it is sent. */
export function TaskStep({ projectId, onLeave }: { projectId: number; onLeave: () => void }) {
  const t = useT();
  const tasks = [
    [t("welcome.explain"), t("welcome.explainText")],
    [t("welcome.todos"), t("welcome.todosText")],
    [t("welcome.tests"), t("welcome.testsText")],
  ] as const;
  const begin = (text: string) => {
    setPreference("welcomed", true);
    storeDraft(`${projectId}.${NEW}`, text);
    navigate(paths.chat(projectId));
  };
  return (
    <section className="stack" aria-label={t("welcome.task")}>
      <p className="muted">{t("welcome.taskHint")}</p>
      {tasks.map(([title, text]) => (
        <button key={title} type="button" className={styles.task} onClick={() => begin(text)}>
          <strong>{title}</strong>
          <span className="muted small">{text}</span>
        </button>
      ))}
      <div className={styles.actions}>
        <Button onClick={onLeave}>{t("welcome.typeMyself")}</Button>
      </div>
    </section>
  );
}
