import { Paperclip } from "lucide-react";
import { type DragEvent, useRef, useState } from "react";
import { IconButton } from "@/ui/components";
import { useT } from "@/ui/hooks";
import styles from "./Composer.module.css";

/** Where files can be dropped. */
export function DropBox({ addFiles, children }: { addFiles: (files: readonly File[]) => void; children: React.ReactNode }) {
  const [isOver, setOver] = useState(false);
  const over = (event: DragEvent) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setOver(true);
  };
  const drop = (event: DragEvent) => {
    setOver(false);
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    addFiles([...event.dataTransfer.files]);
  };
  return (
    <div className={styles.box} data-drop={isOver || undefined} onDragOver={over} onDragLeave={() => setOver(false)} onDrop={drop}>
      {children}
    </div>
  );
}

export function AttachButton({ addFiles }: { addFiles: (files: readonly File[]) => void }) {
  const t = useT();
  const field = useRef<HTMLInputElement>(null);
  return (
    <>
      <IconButton label={t("chat.attach")} onClick={() => field.current?.click()}>
        <Paperclip aria-hidden="true" size={18} />
      </IconButton>
      <input
        ref={field}
        type="file"
        multiple
        hidden
        aria-label={t("chat.attach")}
        onChange={(event) => {
          addFiles([...(event.target.files ?? [])]);
          event.target.value = "";
        }}
      />
    </>
  );
}
