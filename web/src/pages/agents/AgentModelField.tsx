import type { Models } from "@/api/types";
import { formatMoney, formatNumber } from "@/i18n/format";
import { useT } from "@/ui/hooks";
import { ModelPicker } from "@/ui/models";
import styles from "./Agents.module.css";
import { Fact } from "./Fact";

/** The model of an agent, with price, window and abilities of the chosen one. */
export function AgentModelField({ models, model, onChange }: { models: Models; model: string; onChange: (model: string) => void }) {
  const t = useT();
  const known = models.items.find(({ id }) => id === model);
  const error = known ? (known.allowed ? null : t("agents.modelForbidden")) : models.demo ? null : t("agents.modelMissing");
  const tokens = (count: number | null) => (count === null ? t("agents.unknown") : t("agents.tokens", { count: formatNumber(count) }));
  const price =
    known?.input_usd_per_million == null || known.output_usd_per_million == null
      ? t("common.unknownPrice")
      : t("agents.priceValue", { input: formatMoney(known.input_usd_per_million), output: formatMoney(known.output_usd_per_million) });
  const images = known?.supports_images == null ? t("agents.unknown") : known.supports_images ? t("agents.yes") : t("agents.no");
  return (
    <div className="stack">
      <ModelPicker label={t("agents.model")} error={error} hint={models.demo ? t("agents.modelDemo") : undefined} defaultModel={models.default_model} models={models.items} value={model} onChange={onChange} />
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
