import { Plus } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import type { ApiKey } from "@/api/types";
import { formatDateTime } from "@/i18n/format";
import { copyAndTell } from "@/ui/clipboard";
import { Button, Dialog, FormDialog, Prose, Select, TextField, textOf } from "@/ui/components";
import { useT } from "@/ui/hooks";

const DAY_SECONDS = 86_400;
const DAYS = [1, 7, 30, 90, 365];

/** Makes a key for a program, and shows it once. `longest` are the seconds that the server allows. */
export function NewKey({ longest, onMade }: { longest: number; onMade: () => void }) {
  const t = useT();
  const [isOpen, setOpen] = useState(false);
  const [key, setKey] = useState<ApiKey | null>(null);
  const days = DAYS.filter((count) => count * DAY_SECONDS <= longest).map((count) => ({ value: String(count * DAY_SECONDS), label: t("settings.keyDays", { count }) }));
  const options = days.length ? days : [{ value: String(longest), label: t("settings.keyLongest") }];
  const make = async (form: FormData) => {
    setKey(await call("POST /auth/sessions", { body: { name: textOf(form, "name").trim(), expires_in: Number(textOf(form, "seconds")) } }));
    onMade();
  };
  return (
    <>
      <Button onClick={() => setOpen(true)}>
        <Plus aria-hidden="true" size={16} />
        {t("settings.newKey")}
      </Button>
      {isOpen && (
        <FormDialog title={t("settings.newKey")} submitLabel={t("settings.makeKey")} onSubmit={make} onClose={() => setOpen(false)}>
          <p className="muted small">
            <Prose text={t("settings.keyHint")} />
          </p>
          <TextField label={t("settings.keyName")} hint={t("settings.keyNameHint")} name="name" required maxLength={100} autoFocus autoComplete="off" />
          <Select label={t("settings.keyExpiry")} name="seconds" options={options} defaultValue={options.at(-1)?.value} />
        </FormDialog>
      )}
      {key && (
        <Dialog title={t("settings.yourKey")} onClose={() => setKey(null)}>
          <p>{t("settings.keyOnce", { time: formatDateTime(key.expires_at) })}</p>
          <TextField label={t("settings.yourKey")} isLabelHidden value={key.access_token} readOnly isMono onFocus={(event) => event.target.select()} />
          <div>
            <Button kind="primary" onClick={() => void copyAndTell(key.access_token)}>
              {t("common.copy")}
            </Button>
          </div>
        </Dialog>
      )}
    </>
  );
}
