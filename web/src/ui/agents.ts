// How agents are called and coloured: `agent_coder` is Coder, @coder, and always the same of eight hues.

const HUES = 8;

/** Return the name of an agent for people. */
export function agentLabel(name: string): string {
  const short = agentHandle(name).replaceAll(/[_-]+/g, " ").trim();
  return short ? short.charAt(0).toLocaleUpperCase() + short.slice(1) : name;
}

/** Return the name of an agent in a mention, without the @. The server takes it in place of the whole name. */
export function agentHandle(name: string): string {
  return name.replace(/^agent[_-](?=.)/, "");
}

export function agentHue(name: string): number {
  let hash = 0;
  for (const character of name) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) >>> 0;
  return hash % HUES;
}
