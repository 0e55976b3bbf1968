import { expect, test } from "vitest";
import { accountName } from "./account";

test("an account is its address with hidden characters escaped, or its number", () => {
  expect(accountName({ email: "ada\u200b@example.org", user_id: 7 })).toBe("ada\\u200b@example.org");
  expect(accountName({ email: null, user_id: 7 })).toBe("7");
});
