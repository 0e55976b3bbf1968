// Browsers by the names that people use.

const BROWSERS: readonly (readonly [RegExp, string])[] = [
  [/Edg(?:e|A|iOS)?\/(\d+)/, "Edge"],
  [/(?:OPR|Opera)\/(\d+)/, "Opera"],
  [/(?:Firefox|FxiOS)\/(\d+)/, "Firefox"],
  [/(?:HeadlessChrome|Chrome|CriOS)\/(\d+)/, "Chrome"],
  [/Version\/(\d+)[\d.]* (?:Mobile\/\w+ )?Safari/, "Safari"],
];
const SYSTEMS: readonly (readonly [RegExp, string])[] = [
  [/iPhone|iPad/, "iOS"],
  [/Android/, "Android"],
  [/Windows/, "Windows"],
  [/Mac OS X/, "macOS"],
  [/CrOS/, "ChromeOS"],
  [/Linux/, "Linux"],
];

/** Return a text with what a browser calls itself replaced by its name: "Chrome 140, Linux". */
export function withBrowserName(text: string): string {
  const start = text.indexOf("Mozilla/5.0");
  if (start < 0) return text;
  const agent = text.slice(start);
  const browser = BROWSERS.map(([pattern, name]) => ({ name, version: pattern.exec(agent)?.[1] })).find(({ version }) => version !== undefined);
  const system = SYSTEMS.find(([pattern]) => pattern.test(agent))?.[1];
  if (!browser?.version) return text;
  return text.slice(0, start) + [`${browser.name} ${browser.version}`, system].filter(Boolean).join(", ");
}
