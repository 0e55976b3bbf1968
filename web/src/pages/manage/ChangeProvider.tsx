import { useState } from "react";
import { call } from "@/api/client";
import type { Provider, ProviderChanges } from "@/api/types";
import { kindOf } from "@/state/providers";
import { toast } from "@/state/toasts";
import { FormDialog, TextField, textOf } from "@/ui/components";
import { useT } from "@/ui/hooks";

interface ChangeProviderProps {
  provider: Provider & { id: number };
  onClose: () => void;
  onChanged: () => void;
}

/** Change name, address or key of a stored provider; it is tested at once. A new address needs the key again. */
export function ChangeProvider({ provider, onClose, onChanged }: ChangeProviderProps) {
  const t = useT();
  const [address, setAddress] = useState(provider.base_url ?? "");
  const needsKey = provider.key_set && address.trim() !== (provider.base_url ?? "");
  const save = async (form: FormData) => {
    const [name, key] = [textOf(form, "name").trim(), textOf(form, "key").trim()];
    const changes: ProviderChanges = {};
    if (name && name !== provider.name) changes.name = name;
    if (address.trim() !== (provider.base_url ?? "")) changes.base_url = address.trim() || null;
    if (key) changes.api_key = key;
    const path = { provider_id: provider.id };
    await call("PATCH /admin/providers/{provider_id}", { path, body: changes });
    await call("POST /admin/providers/{provider_id}/test", { path });
    toast(t("settings.saved"));
    onChanged();
  };
  const own = kindOf(provider.kind)?.address;
  return (
    <FormDialog title={t("models.changeName", { name: provider.name })} submitLabel={t("common.save")} onSubmit={save} onClose={onClose}>
      {provider.kind === "openai_compatible" && <TextField label={t("models.name")} name="name" defaultValue={provider.name} maxLength={100} required autoComplete="off" />}
      <TextField
        label={t("models.address")}
        hint={own ? t("models.addressDefault", { address: own }) : t("models.addressHint")}
        type="url"
        value={address}
        placeholder={own}
        required={!own}
        isMono
        autoComplete="off"
        onChange={(event) => setAddress(event.target.value)}
      />
      <TextField
        label={t("models.newKey")}
        hint={needsKey ? t("models.keyAgain") : provider.key_hint === null ? t("models.keyHint") : t("models.keyKept", { hint: provider.key_hint })}
        name="key"
        type="password"
        required={needsKey}
        isMono
        autoComplete="off"
      />
    </FormDialog>
  );
}
