import { Fragment } from "react";
import { preferences } from "@/state/preferences";
import { useCell, useT } from "@/ui/hooks";
import styles from "./Settings.module.css";

/** All keys of the page. */
export function ShortcutsPart() {
  const t = useT();
  const { enterSends } = useCell(preferences);
  const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent);
  const mod = isMac ? "⌘" : "Ctrl";
  const groups: [string, [string[], string][]][] = [
    [
      t("settings.keysPage"),
      [
        [[mod, "J"], t("settings.keyNew")],
        [[mod, "B"], t("settings.keyList")],
        [[mod, "."], t("settings.keyPanel")],
        [["Esc"], t("settings.keyClose")],
        [["Tab"], t("settings.keyTab")],
      ],
    ],
    [
      t("settings.keysWriting"),
      [
        [["/"], t("settings.keyComposer")],
        [enterSends ? ["Enter"] : [mod, "Enter"], t("settings.keySend")],
        [enterSends ? ["Shift", "Enter"] : ["Enter"], t("settings.keyLine")],
      ],
    ],
  ];
  return (
    <div className={styles.narrow}>
      {groups.map(([title, keys]) => (
        <section key={title} className="stack" aria-label={title}>
          <h2>{title}</h2>
          <dl className={styles.keys}>
            {keys.map(([combination, text]) => (
              <Fragment key={text}>
                <dt>
                  {combination.map((key, place) => (
                    <Fragment key={key}>
                      {place > 0 && " + "}
                      <kbd className={styles.key}>{key}</kbd>
                    </Fragment>
                  ))}
                </dt>
                <dd>{text}</dd>
              </Fragment>
            ))}
          </dl>
        </section>
      ))}
    </div>
  );
}
