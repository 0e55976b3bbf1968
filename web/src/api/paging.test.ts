import { expect, test } from "vitest";
import { withPage } from "./paging";

test("the next page is added without what moved there meanwhile", () => {
  const list = { items: [{ id: "c" }, { id: "b" }], total: 3 };
  expect(withPage(list, { items: [{ id: "b" }, { id: "a" }], total: 4 }, ({ id }) => id)).toEqual({ items: [{ id: "c" }, { id: "b" }, { id: "a" }], total: 4 });
});
