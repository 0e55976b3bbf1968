import { useEffect, useRef } from "react";
import type { Problem } from "@/api/problem";
import { problemText } from "@/i18n/problemText";
import { useT } from "../hooks";
import { Button } from "./Button";
import { FormError } from "./Field";

interface EndOfListProps {
  /** How many items are shown, and how many there are. */
  shown: number;
  total: number;
  isLoading: boolean;
  /** Why the last load failed: then only the button loads, or a server in trouble would be asked without end. */
  problem: Problem | null;
  /** Whether scrolling loads too; not where the last page has added nothing that is shown. */
  isAutomatic?: boolean;
  more: () => void;
}

/** Stands below a list that has further items: they are loaded when it is scrolled into view, or pressed. */
export function EndOfList({ shown, total, isLoading, problem, isAutomatic = true, more }: EndOfListProps) {
  const t = useT();
  const place = useRef<HTMLDivElement>(null);
  const latest = useRef(more);
  useEffect(() => {
    latest.current = more;
  });
  const hasMore = shown < total;
  const loadsItself = isAutomatic && problem === null;
  useEffect(() => {
    if (!hasMore || !loadsItself || isLoading || !place.current) return;
    const observer = new IntersectionObserver((entries) => {
      if (entries.some(({ isIntersecting }) => isIntersecting)) latest.current();
    });
    observer.observe(place.current); // tells at once if it is in view still, after a page with few rows
    return () => observer.disconnect();
  }, [hasMore, loadsItself, isLoading, shown]);
  if (!hasMore) return null;
  return (
    <div ref={place}>
      <FormError text={problem && problemText(problem)} />
      <Button kind="quiet" isBusy={isLoading} onClick={more}>
        {t("common.showMore")}
      </Button>
    </div>
  );
}
