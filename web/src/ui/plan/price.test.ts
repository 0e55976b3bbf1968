import { expect, test } from "vitest";
import { limitOffer } from "./price";

const offer = (about: number | null, high: number | null) => limitOffer({ estimated_cost: about, estimated_cost_high: high, estimated_duration: null });

test("a round limit is offered if a plan may cost more than five times what is likely", () => {
  expect(offer(0.52, 5.56)).toBe(1);
  expect(offer(0.087, 1.28)).toBe(0.2);
  expect(offer(3, 40)).toBe(5);
  expect(offer(0.52, 2.6)).toBeNull();
  expect(offer(null, 5)).toBeNull();
  expect(offer(0, 5)).toBeNull();
});
