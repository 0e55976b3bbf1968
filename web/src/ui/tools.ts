import type { ToolShown } from "@/api/types";
import { tOr } from "@/i18n";

/** Return the name that the catalogue has for a tool; null for one of a plugin or of another server. */
export function plainToolName(name: string): string | null {
  return tOr(`tools.name_${name}`, "") || null;
}

/** Return the name of a tool for people; one of a plugin, such as `find_flights`, is "Find flights". */
export function toolLabel(name: string): string {
  const words = name.replace(/^tool_/, "").replaceAll("_", " ");
  return plainToolName(name) ?? words.charAt(0).toUpperCase() + words.slice(1);
}

/** Return what a tool is for; only a plugin's in the words that the model is given. */
export function toolText({ name, description }: Pick<ToolShown, "name" | "description">): string {
  return tOr(`toolTexts.about_${name}`, description);
}
