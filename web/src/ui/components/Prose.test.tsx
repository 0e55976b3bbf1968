import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { Prose } from "./Prose";

test("a sentence shows hidden characters, so that a question names the account that it is about", () => {
  expect(renderToStaticMarkup(<Prose text={"Sign in as ada\u200b@example.org?\nRun `artel \u202elink`."} />)).toBe(
    "Sign in as ada\\u200b@example.org?\nRun <code>artel \\u202elink</code>.",
  );
});
