import { useState } from "react";
import { LANGUAGES, chooseLanguage, isLanguage } from "@/i18n";
import { type Theme, preferences, setPreference } from "@/state/preferences";
import { Select, Switch } from "@/ui/components";
import { useCell, useT } from "@/ui/hooks";
import styles from "./Settings.module.css";

const SYSTEM = "";

/** What this browser remembers about the page. */
export function GeneralPart() {
  const t = useT();
  const { theme, language, enterSends, fontStep } = useCell(preferences);
  const languages = [{ value: SYSTEM, label: t("shell.languageSystem") }, ...Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }))];
  const themes = [
    { value: "system", label: t("shell.themeSystem") },
    { value: "light", label: t("shell.themeLight") },
    { value: "dark", label: t("shell.themeDark") },
  ];
  const sizes = [
    { value: "-1", label: t("settings.fontSmall") },
    { value: "0", label: t("settings.fontNormal") },
    { value: "1", label: t("settings.fontLarge") },
    { value: "2", label: t("settings.fontLargest") },
  ];
  return (
    <div className={styles.narrow}>
      <section className="stack" aria-label={t("settings.appearance")}>
        <h2>{t("settings.appearance")}</h2>
        <div className={styles.two}>
          <Select label={t("shell.theme")} options={themes} value={theme} onChange={(event) => setPreference("theme", event.target.value as Theme)} />
          <Select label={t("settings.fontSize")} options={sizes} value={String(fontStep)} onChange={(event) => setPreference("fontStep", Number(event.target.value))} />
        </div>
        <Select
          label={t("shell.language")}
          options={languages}
          value={language ?? SYSTEM}
          onChange={(event) => void chooseLanguage(isLanguage(event.target.value) ? event.target.value : null)}
        />
      </section>
      <section className="stack" aria-label={t("settings.writing")}>
        <h2>{t("settings.writing")}</h2>
        <Switch label={t("settings.enterSends")} hint={t("settings.enterSendsHint")} checked={enterSends} onChange={(event) => setPreference("enterSends", event.target.checked)} />
      </section>
      <Notifications />
      <p className="muted small">{t("settings.browserOnly")}</p>
    </div>
  );
}

function Notifications() {
  const t = useT();
  const { notifications } = useCell(preferences);
  const [isRefused, setRefused] = useState(false);
  const isPossible = "Notification" in globalThis && isSecureContext;
  const isOn = notifications && isPossible && Notification.permission === "granted";
  const change = async (isWanted: boolean) => {
    const isAllowed = isWanted && (await Notification.requestPermission()) === "granted";
    setRefused(isWanted && !isAllowed);
    setPreference("notifications", isAllowed);
  };
  const hint = !isPossible ? t("settings.notifyImpossible") : isRefused ? t("settings.notifyRefused") : t("settings.notifyHint");
  return (
    <section className="stack" aria-label={t("settings.notifications")}>
      <h2>{t("settings.notifications")}</h2>
      <Switch label={t("settings.notify")} hint={hint} checked={isOn} disabled={!isPossible} onChange={(event) => void change(event.target.checked)} />
    </section>
  );
}
