import { type ReactNode, useRef } from "react";
import styles from "./Tooltip.module.css";
import { placeBeside } from "./placement";

/** Shows a text beside what it wraps, on hover and keyboard focus. The name of the control itself is its `aria-label`. */
export function Tooltip({ text, children }: { text: string; children: ReactNode }) {
  const anchor = useRef<HTMLSpanElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const frame = useRef(0);
  const open = () => {
    const target = anchor.current?.firstElementChild;
    if (!tip.current || !target || tip.current.matches(":popover-open")) return;
    tip.current.showPopover();
    placeBeside(tip.current, target, "center");
  };
  // A menu that opens moves the focus, and no popover can be opened while another one is opening: a frame later it can.
  const show = () => {
    cancelAnimationFrame(frame.current);
    frame.current = requestAnimationFrame(open);
  };
  const hide = () => {
    cancelAnimationFrame(frame.current);
    if (tip.current?.matches(":popover-open")) tip.current.hidePopover();
  };
  return (
    <span
      ref={anchor}
      className={styles.anchor}
      onPointerEnter={(event) => event.pointerType === "mouse" && show()}
      onPointerLeave={hide}
      onPointerDown={hide}
      onFocus={(event) => event.target.matches(":focus-visible") && show()}
      onBlur={hide}
    >
      {children}
      <div ref={tip} popover="manual" className={styles.tooltip} aria-hidden="true">
        {text}
      </div>
    </span>
  );
}
