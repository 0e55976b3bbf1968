// Fails the build when what a browser has to load first grows over its budget, or when the build names another host.

import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

export interface Chunk {
  fileName: string;
  size: number; // compressed bytes, styles included
  imports: readonly string[]; // static ones
}

export interface Budget {
  name: string;
  maxBytes: number;
  roots: readonly string[]; // modules whose chunks and static imports are counted
}

const KB = 1024;
export const BUDGETS: readonly Budget[] = [
  { name: "shell", maxBytes: 110 * KB, roots: ["src/main.tsx", "src/i18n/en/index.ts"] },
  { name: "first chat view", maxBytes: 250 * KB, roots: ["src/main.tsx", "src/i18n/en/index.ts", "src/pages/chat/index.tsx"] },
];
// Namespaces and licence notes name hosts, but load nothing from them.
const HOST = /\b(?:src|href)\s*[=:]\s*["'`]https?:\/\/|\burl\(\s*["']?https?:\/\/|\bimport\(\s*["'`]https?:\/\//;

/** Return the compressed bytes of chunks and of all that they import statically. */
export function sizeOf(roots: readonly string[], chunks: ReadonlyMap<string, Chunk>): number {
  const counted = new Set<string>();
  const waiting = [...roots];
  let total = 0;
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    const chunk = chunks.get(name);
    if (!chunk || counted.has(name)) continue;
    counted.add(name);
    total += chunk.size;
    waiting.push(...chunk.imports);
  }
  return total;
}

export function checkBudgets(): Plugin {
  return {
    name: "artel-budgets",
    apply: "build",
    generateBundle(_options, bundle) {
      const chunks = new Map<string, Chunk>();
      const chunkOfModule = new Map<string, string>();
      const compressed = (content: string | Uint8Array) => gzipSync(content).length;
      for (const file of Object.values(bundle)) {
        if (file.type === "asset") {
          if (/\.css$/.test(file.fileName) && HOST.test(String(file.source))) this.error(`${file.fileName} loads from another host`);
          continue;
        }
        if (HOST.test(file.code)) this.error(`${file.fileName} loads from another host`);
        const styles = [...(file.viteMetadata?.importedCss ?? [])].map((name) => bundle[name]);
        const css = styles.reduce((sum, style) => sum + (style?.type === "asset" ? compressed(style.source) : 0), 0);
        chunks.set(file.fileName, { fileName: file.fileName, size: compressed(file.code) + css, imports: file.imports });
        for (const id of file.moduleIds) chunkOfModule.set(id.split("?")[0] ?? id, file.fileName);
      }
      for (const { name, maxBytes, roots } of BUDGETS) {
        const files = roots.map((root) => [...chunkOfModule].find(([id]) => id.endsWith(`/web/${root}`))?.[1]);
        const missing = roots.filter((_, place) => files[place] === undefined);
        if (missing.length) this.error(`The budget "${name}" counts modules that are not in the build: ${missing.join(", ")}`);
        const size = sizeOf(files.filter((file) => file !== undefined), chunks);
        const text = `${name}: ${(size / KB).toFixed(1)} of ${maxBytes / KB} KB compressed`;
        if (size > maxBytes) this.error(`Over the budget. ${text}. Load something later, or use less of a library.`);
        this.info(text);
      }
    },
  };
}
