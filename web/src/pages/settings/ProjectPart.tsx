import { useState } from "react";
import { call } from "@/api/client";
import { setPreference } from "@/state/preferences";
import { showProject } from "@/state/project";
import { toast } from "@/state/toasts";
import { Button, Form, FormDialog, TextField, textOf } from "@/ui/components";
import { useProject, useProjectState, useT } from "@/ui/hooks";
import { navigate } from "@/ui/router";
import { paths } from "@/ui/routes";
import styles from "./Settings.module.css";

/** The name of the project, and its deletion. */
export function ProjectPart() {
  const t = useT();
  const project = useProject();
  const { project: opened } = useProjectState();
  const [isDeleting, setDeleting] = useState(false);
  const name = opened?.name ?? "";
  const save = async (form: FormData) => {
    await call("PATCH /my/projects/{project_id}", { path: { project_id: project.id }, body: { name: textOf(form, "name") } });
    project.reload("project");
    toast(t("settings.saved"));
  };
  return (
    <div className={styles.narrow}>
      <Form submitLabel={t("common.save")} onSubmit={save}>
        <TextField key={name} label={t("settings.projectName")} name="name" defaultValue={name} required maxLength={200} autoComplete="off" />
      </Form>
      <section className={`${styles.danger} stack`} aria-label={t("settings.danger")}>
        <h2>{t("settings.danger")}</h2>
        <p>{t("settings.dangerHint")}</p>
        <div>
          <Button kind="danger" onClick={() => setDeleting(true)}>
            {t("settings.deleteProject")}
          </Button>
        </div>
      </section>
      {isDeleting && <DeleteProject id={project.id} name={name} onClose={() => setDeleting(false)} />}
    </div>
  );
}

function DeleteProject({ id, name, onClose }: { id: number; name: string; onClose: () => void }) {
  const t = useT();
  const remove = async () => {
    await call("DELETE /my/projects/{project_id}", { path: { project_id: id } });
    toast(t("settings.projectDeleted", { name }));
    showProject(null);
    setPreference("lastProject", null);
    navigate(paths.home());
  };
  return (
    <FormDialog
      title={t("settings.danger")}
      isAlert
      submitKind="danger"
      submitLabel={t("settings.deleteProject")}
      onClose={onClose}
      onSubmit={remove}
    >
      <p>{t("settings.dangerHint")}</p>
      <TextField
        label={t("settings.typeName", { name })}
        required
        autoComplete="off"
        onChange={({ target }) => target.setCustomValidity(target.value.trim() === name.trim() ? "" : t("settings.nameDiffers"))}
      />
    </FormDialog>
  );
}
