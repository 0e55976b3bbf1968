// The server answers lists in pages of at most 100 items.

export const LARGEST_PAGE = 100;
export const MOST_PROJECTS = 1000; // more than anybody looks through in a menu

export interface Page<I> {
  items: I[];
  total: number;
}

/** Load the first `count` items of a list, page by page. */
export async function firstItems<I>(count: number, load: (page: { limit: number; offset: number }) => Promise<Page<I>>): Promise<Page<I>> {
  const items: I[] = [];
  for (;;) {
    const page = await load({ limit: Math.min(LARGEST_PAGE, count - items.length), offset: items.length });
    items.push(...page.items);
    if (!page.items.length || items.length >= Math.min(count, page.total)) return { items, total: page.total };
  }
}

/** Return a list with its next page; an item that moved there meanwhile is not taken twice. */
export function withPage<I>(list: Page<I>, next: Page<I>, idOf: (item: I) => string): Page<I> {
  const known = new Set(list.items.map(idOf));
  return { items: [...list.items, ...next.items.filter((item) => !known.has(idOf(item)))], total: next.total };
}
