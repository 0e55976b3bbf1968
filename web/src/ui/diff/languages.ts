const BY_ENDING: Readonly<Record<string, string>> = {
  bash: "bash", c: "c", cc: "cpp", cpp: "cpp", cs: "csharp", css: "css", diff: "diff", go: "go", h: "c", hpp: "cpp", html: "xml", ini: "ini", java: "java",
  js: "javascript", json: "json", jsx: "javascript", kt: "kotlin", less: "less", lua: "lua", md: "markdown", mjs: "javascript", php: "php", pl: "perl",
  py: "python", pyi: "python", r: "r", rb: "ruby", rs: "rust", scss: "scss", sh: "bash", sql: "sql", svg: "xml", swift: "swift", toml: "ini",
  ts: "typescript", tsx: "typescript", vue: "xml", xml: "xml", yaml: "yaml", yml: "yaml",
};

/** Return the language of a file by its name; null if it is not known. */
export function languageOf(path: string): string | null {
  const name = path.split("/").at(-1)?.toLowerCase() ?? "";
  if (name === "makefile") return "makefile";
  return BY_ENDING[name.split(".").at(-1) ?? ""] ?? null;
}
