import { Plus } from "lucide-react";
import { useEffect, useState } from "react";
import { call } from "@/api/client";
import type { DiscoveredServer, Provider } from "@/api/types";
import { formatDuration } from "@/i18n/format";
import { problemText } from "@/i18n/problemText";
import { addProvider, emptyDraft, isAddingProvider, kindOf } from "@/state/providers";
import { toast, withUndo } from "@/state/toasts";
import { Ago, Button, EmptyState, FormError, LoadFailed, Prose, Skeleton } from "@/ui/components";
import { useAction, useCell, useResource, useT } from "@/ui/hooks";
import { Badge } from "@/ui/models";
import { ChangeProvider } from "./ChangeProvider";
import { AddProvider } from "./AddProvider";
import styles from "./Manage.module.css";

const LISTED = 100;

/** The providers of the server: stored ones, those of the environment, and those found on the server's machine. */
export function Providers({ onChange }: { onChange: () => void }) {
  const t = useT();
  const isAdding = useCell(isAddingProvider);
  const setAdding = isAddingProvider.set;
  useEffect(() => () => isAddingProvider.set(false), []);
  const [hidden, setHidden] = useState<ReadonlySet<number>>(new Set());
  const { data, problem, reload } = useResource("providers", (signal) => call("GET /admin/providers", { query: { limit: LISTED } }, { signal }));
  const changed = () => {
    reload();
    onChange();
  };
  const remove = (provider: Provider & { id: number }) => {
    const show = () => setHidden((before) => new Set([...before].filter((id) => id !== provider.id)));
    setHidden((before) => new Set([...before, provider.id]));
    const run = async () => {
      try {
        await call("DELETE /admin/providers/{provider_id}", { path: { provider_id: provider.id } }, { keepalive: true });
        changed();
      } catch (failure) {
        show();
        toast(problemText(failure), { kind: "error" });
      }
    };
    withUndo(t("models.deleted", { name: provider.name }), t("common.undo"), () => void run(), show);
  };
  const shown = data?.items.filter(({ id }) => id === null || !hidden.has(id)) ?? [];
  return (
    <section className="stack" aria-label={t("models.providers")}>
      <div className={styles.head}>
        <h2>{t("models.providers")}</h2>
        <Button kind="primary" onClick={() => setAdding(true)}>
          <Plus aria-hidden="true" size={16} />
          {t("models.add")}
        </Button>
      </div>
      {problem && <LoadFailed problem={problem} retry={reload} />}
      {!data && !problem && <Skeleton />}
      {data && !shown.length && <EmptyState title={t("models.noProviders")} text={t("models.noProvidersHint")} />}
      <ul role="list" className={styles.cards}>
        {shown.map((provider) => (
          <ProviderCard key={provider.id ?? provider.prefix} provider={provider} onChange={changed} onDelete={remove} />
        ))}
      </ul>
      {data && <Found known={data.items} onChange={changed} />}
      {isAdding && <AddProvider onClose={() => setAdding(false)} onAdded={changed} />}
    </section>
  );
}

interface CardProps {
  provider: Provider;
  onChange: () => void;
  onDelete: (provider: Provider & { id: number }) => void;
}

function ProviderCard({ provider, onChange, onDelete }: CardProps) {
  const t = useT();
  const [isChanging, setChanging] = useState(false);
  const { id, name, source, variable, status, error, tested_at, latency_ms, models, base_url, key_set, key_hint } = provider;
  const test = useAction(async () => {
    if (id !== null) await call("POST /admin/providers/{provider_id}/test", { path: { provider_id: id } });
    onChange();
  });
  const address = base_url ?? kindOf(provider.kind)?.address;
  return (
    <li className={styles.card}>
      <div className={styles.cardHead}>
        <h3 className="data">{name}</h3>
        {source === "environment" && <Badge>{t("models.fromEnvironment")}</Badge>}
        {status === "ok" && <Badge kind="good">{t("models.works")}</Badge>}
        {status === "failed" && <Badge kind="bad">{t("models.fails")}</Badge>}
        {status === "untested" && source === "stored" && <Badge>{t("models.untested")}</Badge>}
      </div>
      <div className={styles.facts}>
        {address && <span className="data">{address}</span>}
        {variable && <span>{t("models.setBy", { variable })}</span>}
        {key_hint !== null ? <span>{t("models.keyEnds", { hint: key_hint })}</span> : <span>{key_set ? t("models.keySet") : t("models.noKey")}</span>}
        {status === "ok" && <span>{t("models.count", { count: models.length })}</span>}
        {latency_ms !== null && <span>{t("models.answersIn", { time: formatDuration(latency_ms) })}</span>}
        {tested_at !== null && (
          <span>
            {t("models.testedAt")} <Ago at={tested_at} />
          </span>
        )}
      </div>
      {error && (
        <p className={styles.error}>
          <Prose text={error} />
        </p>
      )}
      <FormError text={test.problem && problemText(test.problem)} />
      {id !== null && (
        <div className="row">
          <Button size="small" isBusy={test.isBusy} aria-label={t("models.testName", { name })} onClick={() => void test.run()}>
            {t("models.test")}
          </Button>
          <Button size="small" aria-label={t("models.changeName", { name })} onClick={() => setChanging(true)}>
            {t("models.change")}
          </Button>
          <Button size="small" kind="quiet" aria-label={t("models.deleteName", { name })} onClick={() => onDelete({ ...provider, id })}>
            {t("common.delete")}
          </Button>
        </div>
      )}
      {isChanging && id !== null && <ChangeProvider provider={{ ...provider, id }} onClose={() => setChanging(false)} onChanged={onChange} />}
    </li>
  );
}

/** Ollama and LM Studio on the machine of the server, which need one click. */
function Found({ known, onChange }: { known: readonly Provider[]; onChange: () => void }) {
  const t = useT();
  const { data, isLoading, reload } = useResource("discover", (signal) => call("GET /admin/providers/discover", {}, { signal }));
  const add = useAction(async (server: DiscoveredServer) => {
    const added = await addProvider({ ...emptyDraft(server.kind), address: server.base_url });
    toast(t("models.added", { name: added.name }));
    onChange();
  });
  const fresh = data?.items.filter(({ kind }) => !known.some((provider) => provider.kind === kind)) ?? [];
  return (
    <>
      {fresh.map((server) => (
        <div key={server.kind} className={styles.found}>
          <span>{t("models.found", { name: kindOf(server.kind)?.title ?? server.kind, address: server.base_url, models: t("models.count", { count: server.models.length }) })}</span>
          <Button size="small" isBusy={add.isBusy} onClick={() => void add.run(server)}>
            {t("models.addFound", { name: kindOf(server.kind)?.title ?? server.kind })}
          </Button>
        </div>
      ))}
      <FormError text={add.problem && problemText(add.problem)} />
      {data && !data.items.length && (
        <p className="muted small">
          {t("models.noneFound", { addresses: data.tried.join(", ") })}{" "}
          <Button kind="link" isBusy={isLoading} onClick={reload}>
            {t("models.lookAgain")}
          </Button>
        </p>
      )}
    </>
  );
}
