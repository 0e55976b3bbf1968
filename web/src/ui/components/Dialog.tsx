import { X } from "lucide-react";
import { type ReactNode, type SyntheticEvent, useEffect, useId, useRef } from "react";
import { problemText } from "@/i18n/problemText";
import { useAction, useT } from "../hooks";
import { Button, type ButtonKind, IconButton } from "./Button";
import styles from "./Dialog.module.css";
import { FormError } from "./Field";
import { classes } from "./classes";

interface DialogProps {
  title: string;
  onClose: () => void;
  /** A question that must be answered: `alertdialog`. */
  isAlert?: boolean;
  isWide?: boolean;
  children: ReactNode;
}

/** A modal dialog: render it to open it. Escape and the close button call `onClose`; the focus returns by itself. */
export function Dialog({ title, onClose, isAlert = false, isWide = false, children }: DialogProps) {
  const t = useT();
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  useEffect(() => {
    const opened = dialog.current;
    const focused = document.activeElement;
    if (!opened?.open) opened?.showModal();
    // The browser takes the first button, which closes; React's autoFocus comes too early.
    opened?.querySelector<HTMLElement>("input:not([type=hidden]), textarea, select")?.focus();
    return () => {
      opened?.close();
      if (focused instanceof HTMLElement && focused.isConnected) focused.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      className={classes(styles.dialog, isWide && styles.wide)}
      role={isAlert ? "alertdialog" : undefined}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <div className={styles.head}>
        <h2 id={titleId}>{title}</h2>
        <IconButton label={t("common.close")} onClick={onClose}>
          <X aria-hidden="true" size={18} />
        </IconButton>
      </div>
      <div className={styles.body}>{children}</div>
    </dialog>
  );
}

interface FormDialogProps extends DialogProps {
  submitLabel: string;
  submitKind?: ButtonKind;
  cancelLabel?: string;
  /** The dialog closes when it has succeeded; a Problem is shown in the dialog. */
  onSubmit: (form: FormData) => Promise<void>;
}

/** A dialog with a form: fields as children, an error, Cancel and a submit button. */
export function FormDialog({ submitLabel, submitKind = "primary", cancelLabel, onSubmit, onClose, children, ...rest }: FormDialogProps) {
  const t = useT();
  const { run, isBusy, problem } = useAction(onSubmit);
  const submit = async (event: SyntheticEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (await run(new FormData(event.currentTarget))) onClose();
  };
  const close = () => {
    if (!isBusy) onClose();
  };
  return (
    <Dialog {...rest} onClose={close}>
      <form className="stack" onSubmit={submit}>
        {children}
        <FormError text={problem && problemText(problem)} />
        <div className={styles.actions}>
          <Button onClick={close}>{cancelLabel ?? t("common.cancel")}</Button>
          <Button kind={submitKind} type="submit" isBusy={isBusy}>
            {submitLabel}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
