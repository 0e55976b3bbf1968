import type { Models } from "@/api/types";
import { formatMoney, formatNumber } from "@/i18n/format";
import { Select } from "@/ui/components";
import { useT } from "@/ui/hooks";
import styles from "./Agents.module.css";

/** The models that the server has, with price and context window of the chosen one. */
export function ModelPicker({ models, model, onChange }: { models: Models; model: string; onChange: (model: string) => void }) {
  const t = useT();
  const known = models.items.find(({ id }) => id === model);
  const options = models.items
    .filter(({ allowed, id }) => allowed || id === model)
    .map(({ id }) => ({ value: id, label: id === models.default_model ? t("agents.modelDefault", { model: id }) : id }));
  if (!known) options.unshift({ value: model, label: models.demo ? model : t("agents.modelNow", { model }) });
  const error = known ? (known.allowed ? null : t("agents.modelForbidden")) : models.demo ? null : t("agents.modelMissing");
  const tokens = (count: number | null) => (count === null ? t("agents.unknown") : t("agents.tokens", { count: formatNumber(count) }));
  const price =
    known?.input_usd_per_million == null || known.output_usd_per_million == null
      ? t("common.unknownPrice")
      : t("agents.priceValue", { input: formatMoney(known.input_usd_per_million), output: formatMoney(known.output_usd_per_million) });
  const images = known?.supports_images == null ? t("agents.unknown") : known.supports_images ? t("agents.yes") : t("agents.no");
  return (
    <div className="stack">
      <Select label={t("agents.model")} error={error} hint={models.demo ? t("agents.modelDemo") : undefined} options={options} value={model} onChange={(event) => onChange(event.target.value)} />
      {known && known.source !== "demo" && (
        <dl className={styles.facts}>
          <Fact name={t("agents.provider")} value={known.provider} />
          <Fact name={t("agents.price")} value={price} />
          <Fact name={t("agents.window")} value={tokens(known.context_window)} />
          <Fact name={t("agents.maxOutput")} value={tokens(known.max_output_tokens)} />
          <Fact name={t("agents.images")} value={images} />
        </dl>
      )}
    </div>
  );
}

export function Fact({ name, value }: { name: string; value: React.ReactNode }) {
  return (
    <div>
      <dt className="muted small">{name}</dt>
      <dd className="data">{value}</dd>
    </div>
  );
}
