import { call } from "@/api/client";
import { LoadFailed, Select, Skeleton, Switch, TextField } from "@/ui/components";
import { useResource, useT } from "@/ui/hooks";
import type { PartProps } from "./AgentProfile";
import styles from "./Agents.module.css";
import { AgentModelField } from "./AgentModelField";

const SERVERS_CHOICE = "";

export function AgentModel({ agent, change }: PartProps) {
  const t = useT();
  const { data, problem, reload } = useResource("models", (signal) => call("GET /my/models", {}, { signal }));
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton />;
  const isFallback = agent.fallback.enabled ?? true;
  const others = [{ value: SERVERS_CHOICE, label: t("agents.fallbackServer") }, ...data.items.filter(({ allowed }) => allowed).map(({ id }) => ({ value: id, label: id }))];
  return (
    <>
      <AgentModelField models={data} model={agent.model} onChange={(model) => change({ model })} />
      <details className={styles.advanced}>
        <summary>{t("agents.advanced")}</summary>
        <div className={styles.part}>
          <NumberField label={t("agents.temperature")} hint={t("agents.temperatureHint")} value={agent.temperature} min={0} max={2} step={0.1} onChange={(temperature) => change({ temperature })} />
          <div className={styles.pair}>
            <NumberField label={t("agents.maxTokens")} value={agent.max_tokens} min={1} max={1_000_000} onChange={(max_tokens) => change({ max_tokens })} />
            <NumberField label={t("agents.concurrency")} value={agent.concurrency_limit} min={1} max={100} onChange={(concurrency_limit) => change({ concurrency_limit })} />
          </div>
          <Switch label={t("agents.fallback")} checked={isFallback} onChange={(event) => change({ fallback: { ...agent.fallback, enabled: event.target.checked } })} />
          {isFallback && (
            <Select
              label={t("agents.fallbackModel")}
              options={others}
              value={agent.fallback.model ?? SERVERS_CHOICE}
              onChange={(event) => change({ fallback: { ...agent.fallback, model: event.target.value || null } })}
            />
          )}
        </div>
      </details>
    </>
  );
}

interface NumberProps {
  label: string;
  hint?: string;
  value: number;
  min: number;
  max: number;
  step?: number;
  onChange: (value: number) => void;
}

/** A number within limits; the server checks them again. */
export function NumberField({ onChange, value, ...rest }: NumberProps) {
  return (
    <TextField
      {...rest}
      type="number"
      inputMode="decimal"
      value={Number.isNaN(value) ? "" : value}
      onChange={(event) => {
        if (!Number.isNaN(event.target.valueAsNumber)) onChange(event.target.valueAsNumber);
      }}
    />
  );
}
