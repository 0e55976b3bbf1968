import { expect, test } from "vitest";
import { withBrowserName } from "./browserName";

test("what a browser calls itself becomes its name", () => {
  const chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36";
  expect(withBrowserName(`browser, ${chrome}`)).toBe("browser, Chrome 140, Linux");
  expect(withBrowserName(`${chrome} Edg/139.0.1.2`)).toBe("Edge 139, Linux");
  const safari = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1";
  expect(withBrowserName(safari)).toBe("Safari 18, iOS");
  expect(withBrowserName("Mozilla/5.0 (Windows NT 10.0; rv:128.0) Gecko/20100101 Firefox/128.0")).toBe("Firefox 128, Windows");
});

test("anything else stays as it is", () => {
  expect(withBrowserName("token, python-httpx/0.28.1")).toBe("token, python-httpx/0.28.1");
  expect(withBrowserName("Mozilla/5.0 (compatible; crawler)")).toBe("Mozilla/5.0 (compatible; crawler)");
});
