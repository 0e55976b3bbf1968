// Providers of models: what an administrator fills in, how it is tried and stored, and which agents it leaves without a model.

import { call } from "@/api/client";
import type { ModelShown, NewProvider, Provider, ProviderTestResult } from "@/api/types";
import { createCell } from "./store";

/** Whether the dialog that adds a provider is open. */
export const isAddingProvider = createCell(false);

export type Kind = NewProvider["kind"];

export interface KindShown {
  kind: Kind;
  /** A name of a product; null: the catalogue has one. */
  title: string | null;
  /** Of the provider itself; "" if there is none. */
  address: string;
  needsKey: boolean;
}

export const KINDS: readonly KindShown[] = [
  { kind: "openai", title: "OpenAI", address: "https://api.openai.com/v1", needsKey: true },
  { kind: "anthropic", title: "Anthropic", address: "https://api.anthropic.com", needsKey: true },
  { kind: "gemini", title: "Gemini", address: "https://generativelanguage.googleapis.com/v1beta", needsKey: true },
  { kind: "mistral", title: "Mistral", address: "https://api.mistral.ai/v1", needsKey: true },
  { kind: "openrouter", title: "OpenRouter", address: "https://openrouter.ai/api/v1", needsKey: true },
  { kind: "ollama", title: "Ollama", address: "http://127.0.0.1:11434", needsKey: false },
  { kind: "lmstudio", title: "LM Studio", address: "http://127.0.0.1:1234", needsKey: false },
  { kind: "openai_compatible", title: null, address: "", needsKey: false },
];

export function kindOf(kind: string): KindShown | undefined {
  return KINDS.find((each) => each.kind === kind);
}

export interface Draft {
  kind: Kind;
  name: string;
  address: string;
  key: string;
}

export function emptyDraft(kind: Kind = "openai"): Draft {
  return { kind, name: "", address: "", key: "" };
}

/** Return what is missing before a draft can be tried. */
export function missingOf(draft: Draft): "key" | "address" | null {
  const shown = kindOf(draft.kind);
  if (draft.kind === "openai_compatible" && !draft.address.trim()) return "address";
  return shown?.needsKey && !draft.key.trim() ? "key" : null;
}

function filled(draft: Draft): { kind: Kind; base_url?: string; api_key?: string } {
  const [address, key] = [draft.address.trim(), draft.key.trim()];
  return { kind: draft.kind, ...(address && { base_url: address }), ...(key && { api_key: key }) };
}

export function tryProvider(draft: Draft, signal?: AbortSignal): Promise<ProviderTestResult> {
  return call("POST /admin/providers/test", { body: filled(draft) }, { signal });
}

/** Store a provider, and ask it for its models. */
export async function addProvider(draft: Draft): Promise<Provider> {
  const name = draft.name.trim();
  const stored = await call("POST /admin/providers", { body: { ...filled(draft), ...(name && { name }) } });
  if (stored.id === null) return stored;
  return call("POST /admin/providers/{provider_id}/test", { path: { provider_id: stored.id } });
}

/** Return the models that agents may use, without those that only the demo has. */
export function usableModels(models: readonly ModelShown[]): ModelShown[] {
  return models.filter(({ allowed, source }) => allowed && source !== "demo");
}

// Names of models that are good and cheap enough to begin with, best first.
const GOOD = [/^(openai\/)?gpt-5-mini$/, /^(openai\/)?gpt-4\.1-mini$/, /^(openai\/)?gpt-4o-mini$/, /claude-.*sonnet/, /claude-.*haiku/, /gemini-.*flash$/, /mistral-(small|medium)-latest/, /(coder|qwen|llama|gemma|mistral)/];
const NO_CHAT = /embed|whisper|tts|dall-e|image|moderation|realtime|audio|transcribe|rerank|speech|sora|search/i;

/** Return a model to begin with from those of one provider; null if there is none that chats. */
export function suggestedModel(models: readonly string[]): string | null {
  const chatting = models.filter((name) => !NO_CHAT.test(name));
  for (const pattern of GOOD) {
    const found = chatting.find((name) => pattern.test(name));
    if (found !== undefined) return found;
  }
  return chatting[0] ?? null;
}

const MOST_PROJECTS = 100;

/** Give all agents of the user whose model is not there any more another one; return how many. */
export async function moveAgents(available: ReadonlySet<string>, model: string): Promise<number> {
  const { items: projects } = await call("GET /my/projects", { query: { limit: MOST_PROJECTS } });
  let moved = 0;
  for (const { id } of projects) {
    const { agents } = await call("GET /my/projects/{project_id}", { path: { project_id: id } });
    for (const agent of agents) {
      if (available.has(agent.model)) continue;
      await call("PATCH /my/projects/{project_id}/agents/{agent_id}", { path: { project_id: id, agent_id: agent.id }, body: { model } });
      moved += 1;
    }
  }
  return moved;
}
