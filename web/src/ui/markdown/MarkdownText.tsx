// The renderer, loaded when the first answer is shown. HTML in a text stays text, and nothing is loaded from elsewhere.

import type { Element, ElementContent } from "hast";
import { type ComponentProps, lazy, memo, Suspense, useMemo } from "react";
import ReactMarkdown, { type Components, type ExtraProps } from "react-markdown";
import rehypeHighlight from "rehype-highlight";
import remarkGfm from "remark-gfm";
import remarkMath from "remark-math";
import { useT } from "@/ui/hooks";
import { CodeBlock } from "./CodeBlock";
import { splitBlocks } from "./blocks";
import styles from "./Markdown.module.css";

const Formula = lazy(() => import("./Formula"));

const REMARK = [remarkGfm, [remarkMath, { singleDollarTextMath: true }]] satisfies ComponentProps<typeof ReactMarkdown>["remarkPlugins"];
const REHYPE = [[rehypeHighlight, { detect: false, plainText: ["math"] }]] satisfies ComponentProps<typeof ReactMarkdown>["rehypePlugins"];
const MAX_HIGHLIGHTED = 100_000; // characters of a block; colouring more would stop the page

export default function MarkdownText({ text }: { text: string }) {
  const blocks = useMemo(() => splitBlocks(text), [text]);
  return blocks.map((block, place) => <Block key={place} text={block} />);
}

const Block = memo(function Block({ text }: { text: string }) {
  return (
    <ReactMarkdown remarkPlugins={REMARK} rehypePlugins={text.length > MAX_HIGHLIGHTED ? [] : REHYPE} components={COMPONENTS}>
      {text}
    </ReactMarkdown>
  );
});

const COMPONENTS: Components = {
  a: ({ href, children }: ComponentProps<"a"> & ExtraProps) =>
    href ? (
      <a href={href} target="_blank" rel="noopener noreferrer nofollow">
        {children}
      </a>
    ) : (
      <span>{children}</span> // the address was refused
    ),
  // A picture of another host would tell it who reads this: a link instead.
  img: ({ src, alt }: ComponentProps<"img"> & ExtraProps) =>
    typeof src === "string" && src ? (
      <a href={src} target="_blank" rel="noopener noreferrer nofollow">
        {alt ?? src}
      </a>
    ) : (
      <span>{alt}</span>
    ),
  table: TableFrame,
  input: TaskBox,
  pre: ({ node, children }: ComponentProps<"pre"> & ExtraProps) => {
    const code = node?.children[0];
    if (code?.type !== "element" || code.tagName !== "code") return <pre>{children}</pre>;
    const names = classNames(code);
    if (names.includes("math-display")) return <FormulaOrSource source={textOf(code)} isBlock />;
    const language = names.find((name) => name.startsWith("language-"))?.slice("language-".length) ?? "";
    return (
      <CodeBlock source={textOf(code)} language={language}>
        {children}
      </CodeBlock>
    );
  },
  code: ({ node, className, children }: ComponentProps<"code"> & ExtraProps) =>
    node && classNames(node).includes("math-inline") ? (
      <FormulaOrSource source={textOf(node)} isBlock={false} />
    ) : (
      <code className={className}>{children}</code>
    ),
};

/** A table that scrolls by itself, also by keyboard. */
function TableFrame({ children }: ComponentProps<"table"> & ExtraProps) {
  const t = useT();
  return (
    <div className={styles.tableFrame} tabIndex={0} role="region" aria-label={t("markdown.table")}>
      <table>{children}</table>
    </div>
  );
}

/** The box of a task list: a picture of a state, not a control. */
function TaskBox({ checked }: ComponentProps<"input"> & ExtraProps) {
  const t = useT();
  return <input type="checkbox" disabled checked={checked ?? false} readOnly aria-label={checked ? t("markdown.taskDone") : t("markdown.taskOpen")} />;
}

function FormulaOrSource({ source, isBlock }: { source: string; isBlock: boolean }) {
  return (
    <Suspense fallback={<code>{source}</code>}>
      <Formula source={source} isBlock={isBlock} />
    </Suspense>
  );
}

function classNames(node: Element): string[] {
  const value = node.properties["className"];
  return Array.isArray(value) ? value.map(String) : [];
}

function textOf(node: ElementContent): string {
  if (node.type === "text") return node.value;
  return node.type === "element" ? node.children.map(textOf).join("") : "";
}
