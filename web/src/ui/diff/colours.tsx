// Syntax colours of single lines, loaded when a diff is shown. Only lines without hidden characters are coloured.

import { common, createLowlight } from "lowlight";
import type { ReactNode } from "react";

const lowlight = createLowlight(common);

interface Node {
  type: string;
  value?: string;
  properties?: { className?: unknown };
  children?: readonly Node[];
}

/** Return a line in colours; null if its language is not known. */
export function colour(text: string, language: string): ReactNode | null {
  if (!lowlight.registered(language)) return null;
  return drawn(lowlight.highlight(language, text).children);
}

function drawn(nodes: readonly Node[]): ReactNode {
  return nodes.map((node, place) =>
    node.type === "text" ? (
      node.value
    ) : (
      <span key={place} className={Array.isArray(node.properties?.className) ? node.properties.className.join(" ") : undefined}>
        {drawn(node.children ?? [])}
      </span>
    ),
  );
}
