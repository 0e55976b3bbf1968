import type { KeyboardEvent } from "react";

/** Return whether a key sends: Enter, or Ctrl+Enter if the user has chosen that Enter breaks the line. */
export function isSendKey(event: Pick<KeyboardEvent, "key" | "shiftKey" | "ctrlKey" | "metaKey"> & { nativeEvent: { isComposing: boolean } }, enterSends: boolean): boolean {
  if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return false;
  return enterSends || event.ctrlKey || event.metaKey;
}
