// The path prefix under which the server is reached, such as `/artel` behind a proxy; "" without one.

function prefixOfPage(): string {
  if (typeof document === "undefined") return "";
  return document.querySelector<HTMLMetaElement>('meta[name="artel-base"]')?.content ?? "";
}

export const basePath: string = prefixOfPage();
