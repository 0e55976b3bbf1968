import { type InputHTMLAttributes, type ReactNode, type Ref, type SelectHTMLAttributes, type SyntheticEvent, type TextareaHTMLAttributes, useId } from "react";
import { problemText } from "@/i18n/problemText";
import { useAction } from "../hooks";
import { Button, type ButtonKind } from "./Button";
import styles from "./Field.module.css";
import { Prose } from "./Prose";
import { classes } from "./classes";

interface Described {
  label: string;
  hint?: ReactNode;
  error?: string | null;
  /** The label is only for screen readers. */
  isLabelHidden?: boolean;
}

interface Parts {
  id: string;
  "aria-describedby": string | undefined;
  "aria-invalid": true | undefined;
}

/** Label, control, hint and error, connected for screen readers. Use it directly for controls of your own. */
export function Field({ label, hint, error, isLabelHidden = false, children }: Described & { children: (parts: Parts) => ReactNode }) {
  const id = useId();
  const describedBy = [hint ? `${id}-hint` : "", error ? `${id}-error` : ""].filter(Boolean).join(" ");
  return (
    <div className={styles.field}>
      <label htmlFor={id} className={isLabelHidden ? "unseen" : styles.label}>
        {label}
      </label>
      {children({ id, "aria-describedby": describedBy || undefined, "aria-invalid": error ? true : undefined })}
      {hint && (
        <div id={`${id}-hint`} className={styles.hint}>
          {hint}
        </div>
      )}
      {error && (
        <div id={`${id}-error`} className={styles.error}>
          <Prose text={error} />
        </div>
      )}
    </div>
  );
}

export function TextField({ label, hint, error, isLabelHidden, isMono, ...rest }: Described & InputHTMLAttributes<HTMLInputElement> & { isMono?: boolean; ref?: Ref<HTMLInputElement> }) {
  const described = { label, hint, error: error ?? null, isLabelHidden: isLabelHidden ?? false };
  return <Field {...described}>{(parts) => <input {...rest} {...parts} className={classes(styles.input, isMono && styles.mono)} />}</Field>;
}

export function TextArea({ label, hint, error, isLabelHidden, isMono, ...rest }: Described & TextareaHTMLAttributes<HTMLTextAreaElement> & { isMono?: boolean }) {
  const described = { label, hint, error: error ?? null, isLabelHidden: isLabelHidden ?? false };
  return <Field {...described}>{(parts) => <textarea {...rest} {...parts} className={classes(styles.input, isMono && styles.mono)} />}</Field>;
}

export interface Option {
  value: string;
  label: string;
}

export function Select({ label, hint, error, isLabelHidden, options, ...rest }: Described & SelectHTMLAttributes<HTMLSelectElement> & { options: readonly Option[] }) {
  const described = { label, hint, error: error ?? null, isLabelHidden: isLabelHidden ?? false };
  return (
    <Field {...described}>
      {(parts) => (
        <select {...rest} {...parts} className={styles.input}>
          {options.map(({ value, label: text }) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** On or off. */
export function Switch({ label, hint, ...rest }: { label: string; hint?: ReactNode } & InputHTMLAttributes<HTMLInputElement>) {
  const id = useId();
  return (
    <label className={styles.switch}>
      <input {...rest} type="checkbox" role="switch" aria-describedby={hint ? id : undefined} />
      <span>
        {label}
        {hint && (
          <span id={id} className={styles.hint}>
            <br />
            {hint}
          </span>
        )}
      </span>
    </label>
  );
}

/** What is wrong with a form; announced when it appears. */
export function FormError({ text }: { text: string | null }) {
  return (
    <p role="alert" className={styles.error}>
      {text && <Prose text={text} />}
    </p>
  );
}

interface FormProps {
  submitLabel: string;
  submitKind?: ButtonKind;
  onSubmit: (form: FormData, element: HTMLFormElement) => Promise<void>;
  children: ReactNode;
}

/** A form on a page: fields as children, an error, a submit button that is busy while it runs. */
export function Form({ submitLabel, submitKind = "primary", onSubmit, children }: FormProps) {
  const { run, isBusy, problem } = useAction(onSubmit);
  const submit = (event: SyntheticEvent<HTMLFormElement>) => {
    event.preventDefault();
    void run(new FormData(event.currentTarget), event.currentTarget);
  };
  return (
    <form className={styles.form} onSubmit={submit}>
      {children}
      <FormError text={problem && problemText(problem)} />
      <div>
        <Button kind={submitKind} type="submit" isBusy={isBusy}>
          {submitLabel}
        </Button>
      </div>
    </form>
  );
}

/** Return the text of a form's field. */
export function textOf(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === "string" ? value : "";
}
