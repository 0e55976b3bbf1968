import { useEffect, useRef } from "react";
import { useT } from "../hooks";
import { Button } from "./Button";

interface EndOfListProps {
  /** How many items are shown, and how many there are. */
  shown: number;
  total: number;
  isLoading: boolean;
  more: () => void;
}

/** Stands below a list that has further items: they are loaded when it is scrolled into view, or pressed. */
export function EndOfList({ shown, total, isLoading, more }: EndOfListProps) {
  const t = useT();
  const place = useRef<HTMLDivElement>(null);
  const latest = useRef(more);
  useEffect(() => {
    latest.current = more;
  });
  const hasMore = shown < total;
  useEffect(() => {
    if (!hasMore || isLoading || !place.current) return;
    const observer = new IntersectionObserver((entries) => {
      if (entries.some(({ isIntersecting }) => isIntersecting)) latest.current();
    });
    observer.observe(place.current); // tells at once if it is in view still, after a page with few rows
    return () => observer.disconnect();
  }, [hasMore, isLoading, shown]);
  if (!hasMore) return null;
  return (
    <div ref={place}>
      <Button kind="quiet" isBusy={isLoading} onClick={more}>
        {t("common.showMore")}
      </Button>
    </div>
  );
}
