// Puts the chosen theme and font size on <html>; the colours are in styles/tokens.css.

import { preferences } from "@/state/preferences";

function apply(): void {
  const { theme, fontStep } = preferences.get();
  const { dataset } = document.documentElement;
  if (theme === "system") delete dataset.theme;
  else dataset.theme = theme;
  if (fontStep === 0) delete dataset.fontStep;
  else dataset.fontStep = String(fontStep);
}

/** Follow the preferences; call once. */
export function watchTheme(): void {
  apply();
  preferences.subscribe(apply);
}
