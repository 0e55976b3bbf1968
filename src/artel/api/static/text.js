// What was said, shown: as text, and code between fences; never as HTML.

/** Text, and code between fences. What is there already stays: it may be selected, and must not flicker. */
export function setText(root, content) {
  const parts = partsOf(content);
  for (const [place, part] of parts.entries()) {
    let node = root.children[place];
    if (node?.localName !== part.tag) {
      const made = document.createElement(part.tag);
      made.append("");
      if (part.tag === "pre") made.tabIndex = 0; // so that keys can scroll it
      if (node) node.replaceWith(made);
      else root.append(made);
      node = made;
    }
    const leaf = node.firstChild;
    if (part.text.startsWith(leaf.data)) leaf.appendData(part.text.slice(leaf.data.length));
    else leaf.data = part.text;
  }
  while (root.children.length > parts.length) root.lastElementChild.remove();
}

function partsOf(content) {
  const parts = [{ tag: "p", lines: [] }];
  let fence = "";
  for (const line of content.split("\n")) {
    const [, mark, rest] = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(line) ?? [];
    if (mark && (fence ? mark.startsWith(fence) && !rest.trim() : !rest.includes("`"))) {
      parts.push({ tag: fence ? "p" : "pre", lines: [] });
      fence = fence ? "" : mark;
    } else parts.at(-1).lines.push(line);
  }
  const texts = parts.map(({ tag, lines }) => ({ tag, text: lines.join("\n") }));
  for (const part of texts) if (part.tag === "p") part.text = part.text.replace(/^\n+|\n+$/g, "");
  return texts.filter(({ tag, text: said }) => tag === "pre" || said);
}
