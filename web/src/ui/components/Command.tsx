import { Copy } from "lucide-react";
import { copyAndTell } from "../clipboard";
import { useT } from "../hooks";
import { IconButton } from "./Button";
import styles from "./Command.module.css";

/** A command of a terminal, with a button that copies it. */
export function Command({ text }: { text: string }) {
  const t = useT();
  return (
    <div className={styles.command}>
      <code>{text}</code>
      <IconButton label={t("common.copyCommand")} onClick={() => void copyAndTell(text)}>
        <Copy aria-hidden="true" size={16} />
      </IconButton>
    </div>
  );
}
