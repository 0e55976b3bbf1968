// A value that changes only through its reducer, and tells who listens. Components read it with `useStore` (ui/hooks).

export type Reducer<S, A> = (state: S, action: A) => S;

export interface Store<S, A> {
  get: () => S;
  /** Apply actions in order; listeners hear once. */
  dispatch: (...actions: readonly A[]) => void;
  subscribe: (listener: () => void) => () => void;
}

export function createStore<S, A>(reducer: Reducer<S, A>, initial: S): Store<S, A> {
  let state = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => state,
    dispatch(...actions) {
      const next = actions.reduce(reducer, state);
      if (Object.is(next, state)) return;
      state = next;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** A store whose only action is its next value, or a function of the one before. */
export interface Cell<S> extends Omit<Store<S, S | ((before: S) => S)>, "dispatch"> {
  set: (next: S | ((before: S) => S)) => void;
}

export function createCell<S>(initial: S): Cell<S> {
  const store = createStore<S, S | ((before: S) => S)>(
    (before, next) => (typeof next === "function" ? (next as (before: S) => S)(before) : next),
    initial,
  );
  return { get: store.get, subscribe: store.subscribe, set: (next) => store.dispatch(next) };
}

/** Return a function that computes again only when one of its inputs is another object. */
export function memoize<I extends readonly unknown[], R>(compute: (...inputs: I) => R): (...inputs: I) => R {
  let last: { inputs: I; result: R } | null = null;
  return (...inputs) => {
    const known = last;
    if (known && inputs.every((input, place) => Object.is(input, known.inputs[place]))) return known.result;
    const result = compute(...inputs);
    last = { inputs, result };
    return result;
  };
}
