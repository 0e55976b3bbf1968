import { type SyntheticEvent, useState } from "react";
import type { ProviderTestResult } from "@/api/types";
import { problemText } from "@/i18n/problemText";
import { type Draft, addProvider, emptyDraft, missingOf, tryProvider } from "@/state/providers";
import { toast } from "@/state/toasts";
import { Button, Dialog, FormError } from "@/ui/components";
import { useAction, useT } from "@/ui/hooks";
import { ProviderFields, TestResult } from "@/ui/models";

/** A dialog that tries a provider and stores it when it answers; one that does not answer can be stored all the same. */
export function AddProvider({ onClose, onAdded }: { onClose: () => void; onAdded: () => void }) {
  const t = useT();
  const [draft, setDraft] = useState<Draft>(() => emptyDraft());
  const [result, setResult] = useState<ProviderTestResult | null>(null);
  const store = async () => {
    const added = await addProvider(draft);
    toast(t("models.added", { name: added.name }));
    onAdded();
    onClose();
  };
  const submit = useAction(async () => {
    setResult(null);
    const tried = await tryProvider(draft);
    setResult(tried);
    if (tried.ok) await store();
  });
  const anyway = useAction(store);
  const missing = missingOf(draft);
  const problem = submit.problem ?? anyway.problem;
  const change = (next: Draft) => {
    setDraft(next);
    setResult(null);
  };
  return (
    <Dialog title={t("models.add")} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event: SyntheticEvent) => {
          event.preventDefault();
          if (missing === null) void submit.run();
        }}
      >
        <ProviderFields draft={draft} onChange={change} />
        {result && <TestResult result={result} />}
        <FormError text={problem && problemText(problem)} />
        <div className="row">
          <Button kind="primary" type="submit" isBusy={submit.isBusy} isDisabled={missing !== null}>
            {t("models.testAndAdd")}
          </Button>
          {result?.ok === false && (
            <Button isBusy={anyway.isBusy} onClick={() => void anyway.run()}>
              {t("models.addAnyway")}
            </Button>
          )}
          <Button kind="quiet" onClick={onClose}>
            {t("common.cancel")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
