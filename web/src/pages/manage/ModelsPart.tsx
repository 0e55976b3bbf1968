import { call } from "@/api/client";
import type { Models, ServerSettings } from "@/api/types";
import { problemText } from "@/i18n/problemText";
import { refreshAccount } from "@/state/account";
import { toast } from "@/state/toasts";
import { FormError, LoadFailed, Skeleton } from "@/ui/components";
import { useAction, useResource, useT } from "@/ui/hooks";
import { ModelPicker } from "@/ui/models";
import styles from "./Manage.module.css";
import { ModelTable } from "./ModelTable";
import { Providers } from "./Providers";

interface Loaded {
  models: Models;
  settings: ServerSettings;
}

/** Models: the defaults, who provides them, and what they cost. */
export function ModelsPart() {
  const t = useT();
  const { data, problem, reload } = useResource("models", async (signal): Promise<Loaded> => {
    const [models, settings] = await Promise.all([call("GET /my/models", {}, { signal }), call("GET /admin/settings", {}, { signal })]);
    return { models, settings };
  });
  const changed = () => {
    reload();
    void refreshAccount().catch(() => undefined); // the rest of the page learns of it with its next load
  };
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton lines={8} />;
  return (
    <>
      {data.models.demo && <p className="muted">{t("models.demo")}</p>}
      <Providers onChange={changed} />
      {!data.models.demo && <Defaults {...data} onChange={changed} />}
      <ModelTable models={data.models.items} settings={data.settings} onChange={changed} />
      <p className="muted small">{t("models.environmentNote")}</p>
    </>
  );
}

type DefaultName = "default_model" | "planner_model";

function Defaults({ models, settings, onChange }: Loaded & { onChange: () => void }) {
  const t = useT();
  const { run, isBusy, problem } = useAction(async (name: DefaultName, value: string) => {
    await call("PATCH /admin/settings", { body: { [name]: value } });
    toast(t("settings.saved"));
    onChange();
  });
  const names: [DefaultName, string, string][] = [
    ["default_model", t("models.defaultModel"), t("models.defaultModelHint")],
    ["planner_model", t("models.plannerModel"), t("models.plannerModelHint")],
  ];
  return (
    <section className="stack" aria-label={t("models.defaults")}>
      <h2>{t("models.defaults")}</h2>
      <div className={styles.two}>
        {names.map(([name, label, hint]) => {
          const { value, source, variable } = settings[name];
          const isFixed = source === "environment";
          return (
            <ModelPicker
              key={name}
              label={label}
              hint={isFixed ? t("models.setBy", { variable }) : hint}
              models={models.items}
              value={value}
              isDisabled={isFixed || isBusy}
              onChange={(id) => void run(name, id)}
            />
          );
        })}
      </div>
      <FormError text={problem && problemText(problem)} />
    </section>
  );
}
