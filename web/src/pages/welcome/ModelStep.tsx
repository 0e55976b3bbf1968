import { type SyntheticEvent, useEffect, useRef, useState } from "react";
import { call } from "@/api/client";
import type { Models, ProviderTestResult } from "@/api/types";
import { problemText } from "@/i18n/problemText";
import { refreshAccount } from "@/state/account";
import { type Draft, addProvider, emptyDraft, kindOf, missingOf, moveAgents, suggestedModel, tryProvider, usableModels } from "@/state/providers";
import { Button, FormError, LoadFailed, Skeleton } from "@/ui/components";
import { useAction, useResource, useT } from "@/ui/hooks";
import { ModelPicker, ProviderFields, TestResult } from "@/ui/models";
import styles from "./Welcome.module.css";

/** Step 1: who answers. */
export function ModelStep({ isAdmin, onDone }: { isAdmin: boolean; onDone: () => void }) {
  const t = useT();
  const { data, problem, reload } = useResource("welcomeModels", (signal) => call("GET /my/models", {}, { signal }));
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton />;
  if (!data.demo) return <Chosen models={data} isAdmin={isAdmin} onDone={onDone} />;
  if (isAdmin) return <AddFirst onAdded={reload} onSkip={onDone} />;
  return (
    <section className="stack" aria-label={t("welcome.model")}>
      <p>{t("welcome.askAdmin")}</p>
      <div className={styles.actions}>
        <Button kind="primary" onClick={onDone}>
          {t("welcome.next")}
        </Button>
      </div>
    </section>
  );
}

type Choice = "openai" | "anthropic" | "ollama" | "lmstudio" | "other" | "demo";

function AddFirst({ onAdded, onSkip }: { onAdded: () => void; onSkip: () => void }) {
  const t = useT();
  const [choice, setChoice] = useState<Choice>("openai");
  const [draft, setDraft] = useState<Draft>(() => emptyDraft());
  const [result, setResult] = useState<ProviderTestResult | null>(null);
  const actions = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (result) actions.current?.scrollIntoView({ block: "nearest" }); // the result stands above them
  }, [result]);
  const { data: found } = useResource("welcomeDiscover", (signal) => call("GET /admin/providers/discover", {}, { signal }));
  const choose = (next: Choice) => {
    setChoice(next);
    setResult(null);
    const server = found?.items.find(({ kind }) => kind === next);
    if (next === "other") setDraft(emptyDraft("openai_compatible"));
    else if (next !== "demo") setDraft({ ...emptyDraft(next), address: server?.base_url ?? "" });
  };
  const submit = useAction(async () => {
    setResult(null);
    const tried = await tryProvider(draft);
    setResult(tried);
    if (!tried.ok) return;
    await addProvider(draft);
    await settle(tried.models);
    await refreshAccount();
    onAdded();
  });
  const local = (kind: "ollama" | "lmstudio"): string => {
    const server = found?.items.find((each) => each.kind === kind);
    const title = kindOf(kind)?.title ?? kind;
    return server ? t("models.found", { name: title, address: server.base_url, models: t("models.count", { count: server.models.length }) }) : t("welcome.local", { name: title });
  };
  const choices: [Choice, string][] = [
    ["openai", "OpenAI"],
    ["anthropic", "Anthropic"],
    ["ollama", local("ollama")],
    ["lmstudio", local("lmstudio")],
    ["other", t("welcome.other")],
    ["demo", t("welcome.demo")],
  ];
  const send = (event: SyntheticEvent) => {
    event.preventDefault();
    if (choice === "demo") onSkip();
    else if (missingOf(draft) === null) void submit.run();
  };
  return (
    <form className="stack" aria-label={t("welcome.model")} onSubmit={send}>
      <p className="muted">{t("welcome.modelHint")}</p>
      <fieldset className={styles.choices}>
        <legend className="unseen">{t("welcome.model")}</legend>
        {choices.map(([value, label]) => (
          <label key={value} className={styles.choice}>
            <input type="radio" name="choice" value={value} checked={choice === value} onChange={() => choose(value)} />
            <span className="data">{label}</span>
          </label>
        ))}
      </fieldset>
      {choice !== "demo" && (
        <ProviderFields
          draft={draft}
          isKindFixed={choice !== "other"}
          onChange={(next) => {
            setDraft(next);
            setResult(null);
          }}
        />
      )}
      {result && <TestResult result={result} />}
      <FormError text={submit.problem && problemText(submit.problem)} />
      <div ref={actions} className={styles.actions}>
        <Button kind="primary" type="submit" isBusy={submit.isBusy} isDisabled={choice !== "demo" && missingOf(draft) !== null}>
          {choice === "demo" ? t("welcome.next") : t("welcome.test")}
        </Button>
        {choice !== "demo" && (
          <Button kind="quiet" onClick={onSkip}>
            {t("welcome.skip")}
          </Button>
        )}
      </div>
    </form>
  );
}

/** After the first provider: choose a default that it has, and give it to agents whose model nobody provides. */
async function settle(offered: readonly string[]): Promise<void> {
  let models = await call("GET /my/models");
  const isThere = (id: string) => usableModels(models.items).some((model) => model.id === id);
  if (isThere(models.default_model)) {
    await moveAgents(new Set(usableModels(models.items).map((model) => model.id)), models.default_model);
    return;
  }
  const wanted = suggestedModel(offered);
  if (wanted === null) return;
  if (!isThere(wanted) && models.items.some(({ id }) => id === wanted)) {
    // A model of one's own has no price: it costs nothing here, and is what the user has just chosen.
    const { models_unpriced } = await call("GET /admin/settings");
    if (models_unpriced.source !== "environment") await call("PATCH /admin/settings", { body: { models_unpriced: [...models_unpriced.value, wanted] } });
    models = await call("GET /my/models");
  }
  if (isThere(wanted)) await makeDefault(wanted, models);
}

async function makeDefault(id: string, models: Models): Promise<void> {
  const settings = await call("GET /admin/settings");
  const change = { ...(settings.default_model.source !== "environment" && { default_model: id }), ...(settings.planner_model.source !== "environment" && { planner_model: id }) };
  await call("PATCH /admin/settings", { body: change });
  await moveAgents(new Set(usableModels(models.items).map((model) => model.id)), id);
}

function Chosen({ models, isAdmin, onDone }: { models: Models; isAdmin: boolean; onDone: () => void }) {
  const t = useT();
  const [chosen, setChosen] = useState(models.default_model);
  const choose = useAction(async (id: string) => {
    await makeDefault(id, models);
    setChosen(id);
  });
  return (
    <section className="stack" aria-label={t("welcome.model")}>
      <p className={styles.connected}>{t("welcome.modelReady", { models: t("models.count", { count: usableModels(models.items).length }) })}</p>
      {isAdmin ? (
        <ModelPicker label={t("welcome.agentsUse")} models={models.items} value={chosen} isDisabled={choose.isBusy} onChange={(id) => void choose.run(id)} />
      ) : (
        <p>{t("welcome.agentsUseModel", { model: chosen })}</p>
      )}
      <FormError text={choose.problem && problemText(choose.problem)} />
      <div className={styles.actions}>
        <Button kind="primary" isDisabled={choose.isBusy} onClick={onDone}>
          {t("welcome.next")}
        </Button>
      </div>
    </section>
  );
}
