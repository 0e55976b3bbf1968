const GAP = 4;
const EDGE = 8;

/** Put a fixed box below its target, else above it, and inside the window. */
export function placeBeside(box: HTMLElement, target: Element, align: "start" | "center" | "end"): void {
  const around = target.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = box;
  const isBelow = around.bottom + GAP + height <= innerHeight - EDGE || around.top < innerHeight - around.bottom;
  const top = isBelow ? around.bottom + GAP : around.top - GAP - height;
  const left = { start: around.left, center: around.left + (around.width - width) / 2, end: around.right - width }[align];
  box.style.top = `${Math.max(EDGE, Math.min(top, innerHeight - height - EDGE))}px`;
  box.style.left = `${Math.max(EDGE, Math.min(left, innerWidth - width - EDGE))}px`;
}
