import { KeyList } from "@/ui/palette/KeyList";

/** All keys of the page. */
export function ShortcutsPart() {
  return <KeyList />;
}
