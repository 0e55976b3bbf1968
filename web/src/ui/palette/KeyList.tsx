import { Fragment } from "react";
import { preferences } from "@/state/preferences";
import { useCell, useT } from "../hooks";
import styles from "./KeyList.module.css";
import { GO, modSign } from "./keys";

type Row = readonly [readonly string[], string];

/** All keys of the page: in the dialog that `?` opens, and in the settings. */
export function KeyList() {
  const t = useT();
  const { enterSends } = useCell(preferences);
  const mod = modSign();
  const anywhere: Row[] = [
    [[mod, "K"], t("palette.keyPalette")],
    [[mod, "J"], t("palette.newConversation")],
    [["/"], t("palette.keyComposer")],
    [[mod, "Shift", "F"], t("chat.find")],
    [["Alt", "↑ / ↓"], t("palette.keyConversation")],
    [[mod, "B"], t("palette.toggleList")],
    [[mod, "."], t("palette.keyPanel")],
    [["Esc"], t("palette.keyClose")],
    [["?"], t("palette.keyHelp")],
  ];
  const composer: Row[] = [
    [enterSends ? ["Enter"] : [mod, "Enter"], t("palette.keySend")],
    [enterSends ? ["Shift", "Enter"] : ["Enter"], t("palette.keyBreak")],
    [["↑"], t("palette.keyEditLast")],
  ];
  const question: Row[] = [
    [["Enter"], t("palette.keyAllow")],
    [["A"], t("palette.keyAllowMore")],
    [["R"], t("palette.keyRefuse")],
    [["D"], t("palette.keyDiff")],
  ];
  return (
    <div className={styles.groups}>
      <Keys title={t("palette.anywhere")} rows={anywhere} />
      <Keys title={t("palette.inComposer")} rows={composer} />
      <Keys title={t("palette.atQuestion")} rows={question} />
      <Keys title={t("palette.goTo")} between={t("palette.then")} rows={Object.entries(GO).map(([key, { name }]) => [["g", key], t(`shell.${name}`)])} />
    </div>
  );
}

function Keys({ title, rows, between }: { title: string; rows: readonly Row[]; between?: string }) {
  return (
    <section>
      <h3>{title}</h3>
      <dl className={styles.keys}>
        {rows.map(([keys, text]) => (
          <div key={text}>
            <dt>{text}</dt>
            <dd>
              {keys.map((key, place) => (
                <Fragment key={key}>
                  {place > 0 && between && <span className="muted small"> {between} </span>}
                  <kbd className={styles.key}>{key}</kbd>
                </Fragment>
              ))}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
