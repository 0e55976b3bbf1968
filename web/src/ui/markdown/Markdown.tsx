import { lazy, Suspense } from "react";
import { classes } from "@/ui/components";
import styles from "./Markdown.module.css";

const MarkdownText = lazy(() => import("./MarkdownText"));

/** An answer as Markdown; as plain text until the renderer is loaded. `isGrowing` while it is being written. */
export function Markdown({ text, isGrowing = false }: { text: string; isGrowing?: boolean }) {
  return (
    <div className={classes(styles.markdown, isGrowing && styles.growing, "data")}>
      <Suspense fallback={<p className={styles.plain}>{text}</p>}>
        <MarkdownText text={text} />
      </Suspense>
    </div>
  );
}
