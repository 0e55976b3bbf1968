import type { ButtonHTMLAttributes, ReactNode, Ref } from "react";
import styles from "./Button.module.css";
import { Spinner } from "./Spinner";
import { Tooltip } from "./Tooltip";
import { classes } from "./classes";

export type ButtonKind = "plain" | "primary" | "danger" | "quiet" | "link";

interface ButtonProps extends Omit<ButtonHTMLAttributes<HTMLButtonElement>, "disabled"> {
  kind?: ButtonKind;
  size?: "normal" | "small";
  /** Shows a spinner, and takes no clicks; it keeps the focus, which `disabled` would lose. */
  isBusy?: boolean;
  isDisabled?: boolean;
  ref?: Ref<HTMLButtonElement>;
  children: ReactNode;
}

export function Button({ kind = "plain", size = "normal", isBusy = false, isDisabled = false, className, onClick, children, type = "button", ...rest }: ButtonProps) {
  const isOff = isBusy || isDisabled;
  return (
    <button
      {...rest}
      type={type}
      className={classes(styles.button, styles[kind], size === "small" && styles.small, kind === "link" && "reach", className)}
      aria-disabled={isOff || undefined}
      aria-busy={isBusy || undefined}
      onClick={(event) => {
        if (isOff) event.preventDefault();
        else onClick?.(event);
      }}
    >
      {isBusy && <Spinner />}
      {children}
    </button>
  );
}

interface IconButtonProps extends Omit<ButtonProps, "kind" | "size" | "children"> {
  /** What it does: the name for screen readers, and the tooltip. */
  label: string;
  isPressed?: boolean;
  hotkey?: string;
  children: ReactNode;
}

export function IconButton({ label, isPressed, hotkey, className, isDisabled = false, isBusy = false, onClick, children, type = "button", ...rest }: IconButtonProps) {
  const isOff = isBusy || isDisabled;
  return (
    <Tooltip text={hotkey ? `${label} (${hotkey})` : label}>
      <button
        {...rest}
        type={type}
        className={classes(styles.button, styles.icon, className)}
        aria-label={label}
        aria-pressed={isPressed}
        aria-disabled={isOff || undefined}
        onClick={(event) => {
          if (isOff) event.preventDefault();
          else onClick?.(event);
        }}
      >
        {isBusy ? <Spinner /> : children}
      </button>
    </Tooltip>
  );
}
