// Hooks that connect components with stores, texts, requests and the browser.

import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { isAbort } from "@/api/client";
import { LARGEST_PAGE, type Page, firstItems, withPage } from "@/api/paging";
import { Problem } from "@/api/problem";
import { type T, loadedLanguage, t } from "@/i18n";
import { type OpenProject, type ProjectState, openProject } from "@/state/project";

interface Readable<S> {
  get: () => S;
  subscribe: (listener: () => void) => () => void;
}

/** Return the value of a store or cell; the component renders again when it changes. */
export function useCell<S>(store: Readable<S>): S {
  return useSyncExternalStore(store.subscribe, store.get, store.get);
}

/** Return a part of a store. `select` must return the same object for the same state: an element, not a new array. */
export function useSelected<S, R>(store: Readable<S>, select: (state: S) => R): R {
  return useSyncExternalStore(store.subscribe, () => select(store.get()));
}

/** Return `t`; the component renders again when the language changes. */
export function useT(): T {
  useCell(loadedLanguage);
  return t;
}

/** Return the open project; only below a page of a project. */
export function useProject(): OpenProject {
  const project = useCell(openProject);
  if (!project) throw new Error("No project is open");
  return project;
}

export function useProjectState(): ProjectState {
  return useCell(useProject().state);
}

export interface Resource<R> {
  data: R | null;
  problem: Problem | null;
  isLoading: boolean;
  reload: () => void;
  /** Change what was loaded, after a successful change on the server. */
  setData: (change: (before: R) => R) => void;
}

/** Load something when `key` changes; null loads nothing. What was loaded stays while it is loaded again. */
export function useResource<R>(key: string | null, load: (signal: AbortSignal) => Promise<R>): Resource<R> {
  const [state, setState] = useState<{ key: string | null; data: R | null; problem: Problem | null; isLoading: boolean }>({
    key: null,
    data: null,
    problem: null,
    isLoading: key !== null,
  });
  const [round, setRound] = useState(0);
  const loader = useRef(load);
  useEffect(() => {
    loader.current = load;
  });
  useEffect(() => {
    if (key === null) return;
    const stop = new AbortController();
    const run = async () => {
      setState((before) => ({ ...before, key, data: before.key === key ? before.data : null, isLoading: true }));
      try {
        const data = await loader.current(stop.signal);
        if (!stop.signal.aborted) setState({ key, data, problem: null, isLoading: false });
      } catch (failure) {
        if (stop.signal.aborted || isAbort(failure)) return;
        if (!(failure instanceof Problem)) throw failure;
        setState((before) => ({ ...before, problem: failure, isLoading: false }));
      }
    };
    void run();
    return () => stop.abort();
  }, [key, round]);
  const reload = useCallback(() => setRound((before) => before + 1), []);
  const setData = useCallback((change: (before: R) => R) => {
    setState((before) => (before.data === null ? before : { ...before, data: change(before.data) }));
  }, []);
  const isCurrent = state.key === key;
  return {
    data: isCurrent ? state.data : null,
    problem: isCurrent ? state.problem : null,
    isLoading: key !== null && (!isCurrent || state.isLoading),
    reload,
    setData,
  };
}

export interface List<I> extends Resource<Page<I>> {
  /** Load the next page; what is loaded again later are all pages. */
  more: () => void;
  /** Why the next page could not be loaded. */
  moreProblem: Problem | null;
}

type LoadPage<I> = (page: { limit: number; offset: number }, signal: AbortSignal) => Promise<Page<I>>;

/** Load the first items of a list when `key` changes, and further ones when they are wanted. */
export function useList<I>(key: string | null, load: LoadPage<I>, idOf: (item: I) => string): List<I> {
  const count = useRef(LARGEST_PAGE);
  const stop = useRef<AbortController | null>(null);
  const [further, setFurther] = useState<{ key: string | null; offset: number; isLoading: boolean; problem: Problem | null } | null>(null);
  useEffect(() => {
    count.current = LARGEST_PAGE;
    return () => stop.current?.abort();
  }, [key]);
  const resource = useResource(key, (signal) => firstItems(count.current, (page) => load(page, signal)));
  const { data, reload, setData } = resource;
  const loadNext = async (loaded: Page<I>) => {
    stop.current?.abort();
    const { signal } = (stop.current = new AbortController());
    const offset = loaded.items.length;
    count.current = offset + LARGEST_PAGE;
    setFurther({ key, offset, isLoading: true, problem: null });
    try {
      const page = await load({ limit: LARGEST_PAGE, offset }, signal);
      if (signal.aborted) return;
      setData((before) => withPage(before, page, idOf));
      // Items have moved meanwhile: only the whole list tells where the missing ones are.
      if (withPage(loaded, page, idOf).items.length === offset) reload();
      setFurther(null);
    } catch (failure) {
      if (signal.aborted || isAbort(failure)) return;
      if (!(failure instanceof Problem)) throw failure;
      setFurther({ key, offset, isLoading: false, problem: failure });
    }
  };
  const more = () => {
    if (data) void loadNext(data);
  };
  const current = further?.key === key && further.offset === data?.items.length ? further : null;
  return { ...resource, isLoading: resource.isLoading || current?.isLoading === true, more, moreProblem: current?.problem ?? null };
}

/** Return a function that runs an action, whether it runs, and what went wrong; one at a time. */
export function useAction<A extends unknown[]>(action: (...given: A) => Promise<void>): {
  run: (...given: A) => Promise<boolean>;
  isBusy: boolean;
  problem: Problem | null;
  reset: () => void;
} {
  const [state, setState] = useState<{ isBusy: boolean; problem: Problem | null }>({ isBusy: false, problem: null });
  const busy = useRef(false);
  const run = async (...given: A): Promise<boolean> => {
    if (busy.current) return false;
    busy.current = true;
    setState({ isBusy: true, problem: null });
    try {
      await action(...given);
      setState({ isBusy: false, problem: null });
      return true;
    } catch (failure) {
      setState({ isBusy: false, problem: failure instanceof Problem ? failure : null });
      if (!(failure instanceof Problem)) throw failure;
      return false;
    } finally {
      busy.current = false;
    }
  };
  const reset = useCallback(() => setState({ isBusy: false, problem: null }), []);
  return { run, ...state, reset };
}

export function useMedia(query: string): boolean {
  const subscribe = useCallback(
    (listener: () => void) => {
      const list = matchMedia(query);
      list.addEventListener("change", listener);
      return () => list.removeEventListener("change", listener);
    },
    [query],
  );
  return useSyncExternalStore(subscribe, () => matchMedia(query).matches);
}

export const PHONE = "(max-width: 47.99rem)";
/** A phone in either position: rail and list are in a drawer. */
export const SMALL = "(max-width: 47.99rem), (max-height: 30rem)";

/** Return the time, and render again every so often while `isActive`. */
export function useNow(everyMs: number, isActive = true): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!isActive) return;
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs, isActive]);
  return now;
}

/** Return whether keys that are pressed there write something, or choose. */
export function isField(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}

/** Run an action for a key such as `mod+k`, `?` or `Escape`; `mod` is Cmd on a Mac, else Ctrl. Keys without `mod` are not taken while somebody types. */
export function useHotkey(combination: string, action: (event: KeyboardEvent) => void): void {
  const latest = useRef(action);
  useEffect(() => {
    latest.current = action;
  });
  useEffect(() => {
    const parts = combination.split("+");
    const key = parts.at(-1)?.toLowerCase() ?? "";
    const needsMod = parts.includes("mod");
    const needsAlt = parts.includes("alt");
    const needsShift = parts.includes("shift");
    const listener = (event: KeyboardEvent) => {
      if (event.isComposing || event.key.toLowerCase() !== key) return;
      if (needsShift && !event.shiftKey) return;
      if (needsMod !== (event.ctrlKey || event.metaKey) || needsAlt !== event.altKey) return;
      if (isField(event.target) && !needsMod && !needsAlt && key !== "escape") return;
      latest.current(event);
    };
    document.addEventListener("keydown", listener);
    return () => document.removeEventListener("keydown", listener);
  }, [combination]);
}
