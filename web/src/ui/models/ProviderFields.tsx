import { type Draft, KINDS, type Kind, kindOf } from "@/state/providers";
import { Select, TextField } from "../components";
import { useT } from "../hooks";

interface ProviderFieldsProps {
  draft: Draft;
  onChange: (draft: Draft) => void;
  /** The kind was chosen elsewhere. */
  isKindFixed?: boolean;
}

/** Kind, key and address of a provider. */
export function ProviderFields({ draft, onChange, isKindFixed = false }: ProviderFieldsProps) {
  const t = useT();
  const shown = kindOf(draft.kind);
  const isOwn = draft.kind === "openai_compatible";
  const kinds = KINDS.map(({ kind, title }) => ({ value: kind, label: title ?? t("models.compatible") }));
  const set = (change: Partial<Draft>) => onChange({ ...draft, ...change });
  return (
    <>
      {!isKindFixed && <Select label={t("models.provider")} options={kinds} value={draft.kind} onChange={(event) => set({ kind: event.target.value as Kind, address: "", key: "" })} />}
      {isOwn && <TextField label={t("models.name")} hint={t("models.nameHint")} value={draft.name} maxLength={100} autoComplete="off" onChange={(event) => set({ name: event.target.value })} />}
      {(isOwn || !shown?.needsKey) && <Address draft={draft} set={set} own={shown?.address ?? ""} />}
      <TextField
        label={shown?.needsKey ? t("models.key") : t("models.keyOptional")}
        hint={t("models.keyHint")}
        type="password"
        value={draft.key}
        autoComplete="off"
        spellCheck={false}
        isMono
        onChange={(event) => set({ key: event.target.value })}
      />
      {shown?.needsKey && (
        <details>
          <summary>{t("models.otherAddress")}</summary>
          <Address draft={draft} set={set} own={shown.address} />
        </details>
      )}
    </>
  );
}

function Address({ draft, set, own }: { draft: Draft; set: (change: Partial<Draft>) => void; own: string }) {
  const t = useT();
  return (
    <TextField
      label={t("models.address")}
      hint={own ? t("models.addressDefault", { address: own }) : t("models.addressHint")}
      type="url"
      inputMode="url"
      placeholder={own || "http://127.0.0.1:8000/v1"}
      value={draft.address}
      autoComplete="off"
      spellCheck={false}
      isMono
      onChange={(event) => set({ address: event.target.value })}
    />
  );
}
