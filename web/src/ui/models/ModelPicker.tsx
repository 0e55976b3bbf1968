import type { ModelShown } from "@/api/types";
import { t } from "@/i18n";
import { formatCompact, formatMoney } from "@/i18n/format";
import { Field } from "../components";
import fieldStyles from "../components/Field.module.css";
import { useT } from "../hooks";

/** Return "gpt-4o · $2.50 in, $10.00 out · 128K". */
export function modelText({ id, input_usd_per_million, output_usd_per_million, context_window }: ModelShown, isDefault = false): string {
  const price =
    input_usd_per_million === null || output_usd_per_million === null
      ? t("common.unknownPrice")
      : t("models.priceInOut", { input: formatMoney(input_usd_per_million), output: formatMoney(output_usd_per_million) });
  return [isDefault ? t("models.defaultMark", { model: id }) : id, price, context_window === null ? "" : formatCompact(context_window)].filter(Boolean).join(" · ");
}

interface ModelPickerProps {
  label: string;
  hint?: string | undefined;
  error?: string | null;
  /** Marked in the list. */
  defaultModel?: string;
  models: readonly ModelShown[];
  value: string;
  onChange: (id: string) => void;
  isDisabled?: boolean;
  /** Only models of this provider. */
  name?: string;
}

/** Choose one of the models that the server really has, by provider, with price per million tokens and window. */
export function ModelPicker({ label, hint, error, defaultModel, models, value, onChange, isDisabled = false, name }: ModelPickerProps) {
  useT();
  const usable = models.filter(({ allowed, id }) => allowed || id === value);
  const providers = [...new Set(usable.map(({ provider }) => provider))];
  return (
    <Field label={label} hint={hint} error={error}>
      {(parts) => (
        <select {...parts} className={fieldStyles.input} name={name} value={value} disabled={isDisabled} onChange={(event) => onChange(event.target.value)}>
          {!usable.some(({ id }) => id === value) && <option value={value}>{value ? t("models.missing", { model: value }) : t("models.choose")}</option>}
          {providers.map((provider) => (
            <optgroup key={provider} label={provider}>
              {usable
                .filter((each) => each.provider === provider)
                .map((each) => (
                  <option key={each.id} value={each.id}>
                    {modelText(each, each.id === defaultModel)}
                  </option>
                ))}
            </optgroup>
          ))}
        </select>
      )}
    </Field>
  );
}
