import { FileText, X } from "lucide-react";
import { useEffect, useState } from "react";
import { formatBytes } from "@/i18n/format";
import { visible } from "@/state/visible";
import { IconButton } from "@/ui/components";
import { useT } from "@/ui/hooks";
import styles from "./Attachments.module.css";
import type { DraftFile } from "@/state/draftStore";
import { isImage } from "./draftFiles";

/** Files that go with the next message, each with a button that removes it. */
export function DraftFiles({ files, remove }: { files: readonly DraftFile[]; remove: (key: string) => void }) {
  const t = useT();
  if (!files.length) return null;
  return (
    <ul role="list" className={styles.drafts}>
      {files.map((file) => (
        <li key={file.key} className={styles.draft}>
          {isImage(file) && file.content ? <Preview content={file.content} /> : <FileText aria-hidden="true" size={18} />}
          <span className={styles.facts}>
            <span className="ellipsis data">{visible(file.name)}</span>
            <span className={styles.size}>{formatBytes(file.size)}</span>
          </span>
          <IconButton className={styles.remove} label={t("chat.removeFile", { name: visible(file.name) })} onClick={() => remove(file.key)}>
            <X aria-hidden="true" size={14} />
          </IconButton>
        </li>
      ))}
    </ul>
  );
}

function Preview({ content }: { content: Blob }) {
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    const reader = new FileReader(); // the content policy allows data:, and not blob:
    reader.onload = () => setAddress(typeof reader.result === "string" ? reader.result : null);
    reader.readAsDataURL(content);
    return () => reader.abort();
  }, [content]);
  return address === null ? <FileText aria-hidden="true" size={18} /> : <img className={styles.preview} src={address} alt="" />;
}
