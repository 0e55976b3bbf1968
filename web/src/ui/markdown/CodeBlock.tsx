import { Check, Copy, WrapText } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { Button, classes, IconButton } from "@/ui/components";
import { copyText } from "@/ui/clipboard";
import { useT } from "@/ui/hooks";
import styles from "./CodeBlock.module.css";

const FOLDED_LINES = 25;
const COPIED_MS = 2_000;

/** Code with its language, a button to copy it, and a fold when it is long. */
export function CodeBlock({ source, language, children }: { source: string; language: string; children: ReactNode }) {
  const t = useT();
  const [isWrapped, setWrapped] = useState(false);
  const [isOpen, setOpen] = useState(false);
  const lines = source.replace(/\n$/, "").split("\n").length;
  const isLong = lines > FOLDED_LINES + 5; // folding a few lines away would be a nuisance
  return (
    <figure className={styles.block}>
      <figcaption className={styles.bar}>
        <span className={styles.language}>{language || t("markdown.text")}</span>
        <IconButton label={t("markdown.wrap")} isPressed={isWrapped} onClick={() => setWrapped(!isWrapped)}>
          <WrapText aria-hidden="true" size={16} />
        </IconButton>
        <CopyButton source={source} />
      </figcaption>
      <pre className={classes(styles.code, isWrapped && styles.wrapped, isLong && !isOpen && styles.folded)} tabIndex={0}>
        {children}
      </pre>
      {isLong && (
        <Button kind="quiet" className={styles.more} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? t("markdown.fold") : t("markdown.unfold", { count: lines })}
        </Button>
      )}
    </figure>
  );
}

function CopyButton({ source }: { source: string }) {
  const t = useT();
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), COPIED_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = () => void copyText(source).then(setCopied);
  return (
    <IconButton label={isCopied ? t("markdown.copied") : t("markdown.copyCode")} onClick={copy}>
      {isCopied ? <Check aria-hidden="true" size={16} /> : <Copy aria-hidden="true" size={16} />}
    </IconButton>
  );
}
