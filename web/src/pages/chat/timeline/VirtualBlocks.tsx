import { useVirtualizer } from "@tanstack/react-virtual";
import { type RefObject, useEffect, useLayoutEffect, useRef } from "react";
import type { Block } from "@/state/session/blocks";
import { classes } from "@/ui/components";
import { BlockView } from "./Timeline";
import styles from "./Timeline.module.css";

const ESTIMATES: Record<Block["kind"], number> = { user: 84, answer: 180, activity: 28, change: 44, decision: 28, plan: 48, notice: 48, sending: 84, earlier: 28 };
const GAP = 16;
const OVERSCAN = 8;

/** A long conversation: only the blocks around what is seen are on the page. */
export function VirtualBlocks({ blocks, log, found }: { blocks: readonly Block[]; log: RefObject<HTMLDivElement | null>; found: number }) {
  // eslint-disable-next-line react-hooks/incompatible-library -- its functions are used in this component only
  const virtualizer = useVirtualizer({
    count: blocks.length,
    getScrollElement: () => log.current,
    estimateSize: (place) => ESTIMATES[blocks[place]?.kind ?? "answer"],
    getItemKey: (place) => blocks[place]?.key ?? place,
    gap: GAP,
    overscan: OVERSCAN,
  });
  const shown = virtualizer.getVirtualItems();
  // Blocks that come before what is read must not move it.
  const first = useRef({ key: blocks[0]?.key, count: blocks.length });
  useLayoutEffect(() => {
    const before = first.current;
    first.current = { key: blocks[0]?.key, count: blocks.length };
    if (before.key === blocks[0]?.key || before.key === undefined) return;
    const place = blocks.findIndex(({ key }) => key === before.key);
    const offset = place > 0 ? virtualizer.measurementsCache[place]?.start : undefined;
    if (offset !== undefined && log.current) log.current.scrollTop += offset;
  }, [blocks, log, virtualizer]);
  const foundKey = found < 0 ? null : (blocks[found]?.key ?? null);
  const foundPlace = useRef(found);
  useEffect(() => {
    foundPlace.current = found;
  });
  useEffect(() => {
    if (foundKey !== null) virtualizer.scrollToIndex(foundPlace.current, { align: "center" });
  }, [foundKey, virtualizer]);
  return (
    <div className={styles.virtual} style={{ height: virtualizer.getTotalSize() }}>
      {shown.map(({ index, key, start }) => {
        const block = blocks[index];
        return (
          block && (
            <div key={key} ref={virtualizer.measureElement} data-index={index} className={classes(styles.placed, index === found && styles.found)} style={{ transform: `translateY(${start}px)` }}>
              <BlockView block={block} isLast={index === blocks.length - 1} />
            </div>
          )
        );
      })}
    </div>
  );
}
