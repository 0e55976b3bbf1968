import { visibleParts } from "@/state/visible";
import styles from "./Decisions.module.css";

/** Text of others that somebody decides about: hidden characters are marked. `keep` are those that stay as they are. */
export function Visible({ text, keep = "" }: { text: string; keep?: string }) {
  return visibleParts(text, keep).map((part, place) =>
    part.isHidden ? (
      <span key={place} className={styles.hidden}>
        {part.text}
      </span>
    ) : (
      part.text
    ),
  );
}
