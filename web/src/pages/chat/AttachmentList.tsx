import { FileText } from "lucide-react";
import { urlOf } from "@/api/client";
import type { Attachment } from "@/api/types";
import { formatBytes } from "@/i18n/format";
import { visible } from "@/state/visible";
import styles from "./Attachments.module.css";

/** Files of a message: images as pictures, texts as chips; both open in a new tab. Without a session they are not stored yet. */
export function AttachmentList({ sessionId, attachments }: { sessionId: string | null; attachments: readonly Attachment[] }) {
  return (
    <ul role="list" className={styles.list}>
      {attachments.map((attachment) => (
        <li key={attachment.id}>
          {sessionId === null ? <Chip attachment={attachment} /> : <Stored attachment={attachment} url={urlOf("/my/chat/{session_id}/attachments/{attachment_id}", { session_id: sessionId, attachment_id: attachment.id })} />}
        </li>
      ))}
    </ul>
  );
}

function Stored({ attachment, url }: { attachment: Attachment; url: string }) {
  const { name, kind, width, height } = attachment;
  return (
    <a className={styles.link} href={url} target="_blank" rel="noreferrer noopener">
      {kind === "image" ? (
        <img className={styles.image} src={url} alt={visible(name)} width={width ?? undefined} height={height ?? undefined} loading="lazy" />
      ) : (
        <Chip attachment={attachment} />
      )}
    </a>
  );
}

function Chip({ attachment: { name, size } }: { attachment: Attachment }) {
  return (
    <span className={styles.chip}>
      <FileText aria-hidden="true" size={16} />
      <span className="ellipsis data">{visible(name)}</span>
      <span className={styles.size}>{formatBytes(size)}</span>
    </span>
  );
}
