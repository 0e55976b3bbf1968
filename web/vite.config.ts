import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { checkBudgets } from "./build/budgets.ts";
import { precompress } from "./build/precompress.ts";

const server = process.env.ARTEL_SERVER ?? "http://127.0.0.1:8700";
// What the Python server answers; every other path is the page.
const api = ["/my", "/auth", "/admin", "/nodes", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"];

export default defineConfig({
  // Relative, so that the same build works behind a proxy with a path prefix: the server puts the prefix into index.html.
  base: "./",
  plugins: [react(), checkBudgets(), precompress()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    outDir: "../src/artel/api/static/app",
    emptyOutDir: true,
    manifest: "manifest.json",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    target: "es2022",
    reportCompressedSize: false,
  },
  server: {
    // `/admin` must not catch a module of the page, hence the pattern.
    proxy: Object.fromEntries(
      api.map((path) => [`^${path}(/|\\?|$)`, { target: server, changeOrigin: true, headers: { origin: server } }]),
    ),
  },
  test: { environment: "node", include: ["src/**/*.test.{ts,tsx}", "build/**/*.test.ts"] },
});
