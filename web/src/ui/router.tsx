// Navigation without loading the page again: a cell with the path, and links that set it.

import type { AnchorHTMLAttributes, MouseEvent, ReactNode } from "react";
import { basePath } from "@/api/base";
import { createCell } from "@/state/store";
import { useCell } from "./hooks";
import { type Route, matchRoute } from "./routes";

function currentPath(): string {
  const { pathname } = location;
  return pathname.startsWith(basePath) ? pathname.slice(basePath.length) || "/" : pathname;
}

const path = createCell(currentPath());

export function hrefOf(to: string): string {
  return basePath + to;
}

/** Go to a path; `replace` leaves no entry in the history. */
export function navigate(to: string, options: { replace?: boolean } = {}): void {
  const [wanted = "/"] = to.split(/[?#]/);
  if (options.replace) history.replaceState(null, "", hrefOf(to));
  else if (wanted !== path.get()) history.pushState(null, "", hrefOf(to));
  path.set(wanted);
}

/** Follow the browser's back and forward buttons; call once. */
export function watchAddress(): void {
  window.addEventListener("popstate", () => path.set(currentPath()));
}

export function useRoute(): Route | null {
  return matchRoute(useCell(path));
}

export function usePath(): string {
  return useCell(path);
}

type LinkProps = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, "href"> & { to: string; children: ReactNode };

/** A link to a page. With a modifier key or the middle button the browser opens it as any other link. */
export function Link({ to, onClick, children, ...rest }: LinkProps) {
  const follow = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(to);
  };
  return (
    <a {...rest} href={hrefOf(to)} onClick={follow}>
      {children}
    </a>
  );
}
