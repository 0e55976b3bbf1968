// A formula as MathML, which browsers show themselves: no styles of its own, which the content policy would drop.

import { createElement, type ReactNode, useMemo } from "react";
import temml from "temml";

const TAGS = new Set(
  ("math semantics mrow mi mn mo ms mtext mspace mstyle mfrac msqrt mroot msub msup msubsup munder mover munderover " +
    "mmultiscripts mprescripts mtable mtr mtd mpadded mphantom menclose merror none").split(" "),
);
const ATTRIBUTES = new Set(
  ("display mathvariant stretchy fence separator lspace rspace minsize maxsize symmetric largeop movablelimits accent " +
    "accentunder linethickness width height depth columnalign rowspacing columnspacing notation scriptlevel displaystyle form").split(" "),
);
const MAX_SOURCE = 10_000; // characters
const MAX_DEPTH = 100;

export default function Formula({ source, isBlock }: { source: string; isBlock: boolean }) {
  const formula = useMemo(() => toMathMl(source, isBlock), [source, isBlock]);
  return formula ?? <code>{source}</code>;
}

function toMathMl(source: string, isBlock: boolean): ReactNode {
  if (source.length > MAX_SOURCE) return null;
  try {
    const markup = temml.renderToString(source, { displayMode: isBlock, throwOnError: true, trust: false, maxExpand: 500 });
    // The parser too refuses inline styles, and the browser reports each one. Quotes in texts are escaped.
    const unstyled = markup.replaceAll(/ style="[^"]*"/g, "");
    const root = new DOMParser().parseFromString(unstyled, "text/html").body.firstElementChild;
    return root && root.localName === "math" ? toReact(root, 0, 0) : null;
  } catch {
    return null; // it is no formula: its source is shown
  }
}

/** Return an element with what is known of MathML only. */
function toReact(element: Element, place: number, depth: number): ReactNode {
  if (depth > MAX_DEPTH || !TAGS.has(element.localName)) return null;
  const properties: Record<string, string | number> = { key: place };
  for (const { name, value } of element.attributes) if (ATTRIBUTES.has(name)) properties[name] = value;
  const children = [...element.childNodes].map((child, number) =>
    child.nodeType === Node.ELEMENT_NODE ? toReact(child as Element, number, depth + 1) : child.textContent,
  );
  return createElement(element.localName, properties, ...children);
}
