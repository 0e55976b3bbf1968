import { Fragment } from "react";
import { preferences } from "@/state/preferences";
import { Dialog } from "../components";
import { useCell, useT } from "../hooks";
import styles from "./Palette.module.css";
import { GO, modSign } from "./keys";

/** All keys of the page. */
export default function Shortcuts({ onClose }: { onClose: () => void }) {
  const t = useT();
  const { enterSends } = useCell(preferences);
  const mod = modSign();
  const send = enterSends ? ["Enter"] : [mod, "Enter"];
  return (
    <Dialog title={t("palette.shortcuts")} onClose={onClose}>
      <Keys
        title={t("palette.anywhere")}
        rows={[
          [[mod, "K"], t("palette.keyPalette")],
          [[mod, "J"], t("palette.newConversation")],
          [["/"], t("palette.keyComposer")],
          [[mod, "B"], t("palette.toggleList")],
          [[mod, "."], t("palette.keyPanel")],
          [["Esc"], t("palette.keyClose")],
          [["?"], t("palette.keyHelp")],
        ]}
      />
      <Keys
        title={t("palette.inComposer")}
        rows={[
          [send, t("palette.keySend")],
          [enterSends ? ["Shift", "Enter"] : ["Enter"], t("palette.keyBreak")],
        ]}
      />
      <Keys title={t("palette.goTo")} between={t("palette.then")} rows={Object.entries(GO).map(([key, { name }]) => [["g", key], t(`shell.${name}`)])} />
    </Dialog>
  );
}

function Keys({ title, rows, between }: { title: string; rows: readonly (readonly [readonly string[], string])[]; between?: string }) {
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
