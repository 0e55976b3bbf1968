// Copying texts, also where the browser has no clipboard: without HTTPS it has none, except on localhost.

import { t } from "@/i18n";
import { toast } from "@/state/toasts";

/** Copy a text; return whether it was copied. A failure is shown as a notice. */
export async function copyText(text: string): Promise<boolean> {
  const isCopied = (await writeToClipboard(text)) || copySelection(text);
  if (!isCopied) toast(t("common.copyFailed"), { kind: "error" });
  return isCopied;
}

/** Copy a text, and say so. */
export async function copyAndTell(text: string): Promise<void> {
  if (await copyText(text)) toast(t("common.copied"));
}

async function writeToClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // missing or refused
  }
}

function copySelection(text: string): boolean {
  const focused = document.activeElement;
  const area = document.createElement("textarea");
  area.className = "unseen";
  area.readOnly = true; // opens no keyboard of a phone
  area.value = text;
  (document.querySelector("dialog:modal") ?? document.body).append(area); // nothing outside a modal dialog can be selected
  area.select();
  try {
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- the only way without HTTPS
    return document.execCommand("copy");
  } finally {
    area.remove();
    if (focused instanceof HTMLElement) focused.focus();
  }
}
