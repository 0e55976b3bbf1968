import { expect, test } from "vitest";
import { emptyDraft, missingOf, suggestedModel } from "./providers";

test("a provider needs its key, and a server of one's own its address", () => {
  expect(missingOf(emptyDraft("openai"))).toBe("key");
  expect(missingOf({ ...emptyDraft("openai"), key: " sk-1 " })).toBeNull();
  expect(missingOf(emptyDraft("openai_compatible"))).toBe("address");
  expect(missingOf(emptyDraft("ollama"))).toBeNull();
});

test("the suggested model can chat", () => {
  expect(suggestedModel(["text-embedding-3-small", "gpt-4o", "gpt-4o-mini"])).toBe("gpt-4o-mini");
  expect(suggestedModel(["ollama/nomic-embed-text", "ollama/phi4"])).toBe("ollama/phi4");
  expect(suggestedModel(["whisper-1"])).toBeNull();
});
