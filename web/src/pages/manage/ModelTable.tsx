import { useState } from "react";
import { call } from "@/api/client";
import type { ModelShown, ServerSettings } from "@/api/types";
import { formatCompact, formatMoney } from "@/i18n/format";
import { problemText } from "@/i18n/problemText";
import { Button, FormError, Table, TextField } from "@/ui/components";
import { useAction, useT } from "@/ui/hooks";
import { Badge } from "@/ui/models";
import styles from "./Manage.module.css";

const STEP = 50;

interface ModelTableProps {
  models: readonly ModelShown[];
  settings: ServerSettings;
  onChange: () => void;
}

/** All models that there are, with price and window; one without a price may be allowed here. */
export function ModelTable({ models, settings, onChange }: ModelTableProps) {
  const t = useT();
  const [word, setWord] = useState("");
  const [count, setCount] = useState(STEP);
  const { value: unpriced, source, variable } = settings.models_unpriced;
  const allow = useAction(async (id: string) => {
    await call("PATCH /admin/settings", { body: { models_unpriced: [...unpriced, id] } });
    onChange();
  });
  const real = models.filter((model) => model.source !== "demo");
  const found = real.filter(({ id }) => id.toLowerCase().includes(word.trim().toLowerCase()));
  if (!real.length) return null;
  const price = (usd: number | null) => (usd === null ? "–" : formatMoney(usd));
  const state = (model: ModelShown) => {
    if (model.id === settings.default_model.value) return <Badge kind="good">{t("models.isDefault")}</Badge>;
    if (model.allowed) return null;
    if (model.input_usd_per_million !== null) return <Badge kind="warning">{t("models.notAllowed")}</Badge>;
    if (source === "environment") return <span className="small muted">{t("models.setBy", { variable })}</span>;
    return (
      <Button size="small" aria-label={t("models.allowName", { model: model.id })} isBusy={allow.isBusy} onClick={() => void allow.run(model.id)}>
        {t("models.allow")}
      </Button>
    );
  };
  return (
    <section className="stack" aria-label={t("models.models")}>
      <div className={styles.head}>
        <h2>{t("models.models")}</h2>
        <div className={styles.filter}>
          <TextField label={t("models.filter")} isLabelHidden placeholder={t("models.filter")} type="search" value={word} onChange={(event) => setWord(event.target.value)} />
        </div>
      </div>
      <p className="muted small">{t("models.priceNote")}</p>
      <FormError text={allow.problem && problemText(allow.problem)} />
      {found.length ? (
        <Table
          caption={t("models.models")}
          rows={found.slice(0, count)}
          rowKey={({ id }) => id}
          columns={[
            { key: "id", title: t("models.model"), cell: ({ id }) => <span className={`${styles.mono} data`}>{id}</span> },
            { key: "provider", title: t("models.provider"), cell: ({ provider }) => <span className="data">{provider}</span> },
            { key: "input", title: t("models.input"), isNumber: true, cell: (model) => price(model.input_usd_per_million) },
            { key: "output", title: t("models.output"), isNumber: true, cell: (model) => price(model.output_usd_per_million) },
            { key: "window", title: t("models.window"), isNumber: true, cell: ({ context_window }) => (context_window === null ? "–" : formatCompact(context_window)) },
            { key: "images", title: t("models.images"), cell: ({ supports_images }) => (supports_images ? t("models.yes") : "–") },
            { key: "state", title: "", cell: state },
          ]}
        />
      ) : (
        <p className="muted">{t("models.nothingFound", { word })}</p>
      )}
      {found.length > count && (
        <div>
          <Button onClick={() => setCount(count + STEP)}>{t("common.showMore")}</Button>
        </div>
      )}
    </section>
  );
}
