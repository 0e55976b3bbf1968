// Splits Markdown into blocks that can be rendered one by one: while an answer is written only its last block changes.

const FENCE = /^ {0,3}(`{3,}|~{3,}|\$\$)/;
const CONTINUES = /^(?: {2,}|\t| {0,3}(?:[-*+]|\d{1,9}[.)])(?: |\t|$))/; // indented text or a list item
const LIST = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?: |\t|$)/;
const DEFINITION = /^ {0,3}\[[^\]\n]{1,200}\]:/m; // of a link, which other blocks may use

/** Return the blocks of a text; joined with nothing between them they are the text again. */
export function splitBlocks(text: string): string[] {
  if (DEFINITION.test(text)) return text ? [text] : [];
  const blocks: string[] = [];
  let block = "";
  let fence: string | null = null;
  let isBlankBefore = false;
  for (const line of text.split(/(?<=\n)/)) {
    const isBlank = !line.trim();
    const isInList = LIST.test(block);
    if (isBlankBefore && !isBlank && fence === null && !(isInList && CONTINUES.test(line))) {
      blocks.push(block);
      block = "";
    }
    block += line;
    fence = fenceAfter(fence, line);
    isBlankBefore = isBlank && fence === null;
  }
  if (block) blocks.push(block);
  return blocks;
}

/** Return the fence that is open after a line: that of code, or of a formula. */
function fenceAfter(open: string | null, line: string): string | null {
  const mark = FENCE.exec(line)?.[1];
  if (open === null) {
    if (mark === "$$" && line.trim().length > 2 && line.trim().endsWith("$$")) return null; // opened and closed in one line
    return mark ?? null;
  }
  if (open === "$$") return line.trim().endsWith("$$") ? null : open;
  const closes = mark !== undefined && mark[0] === open[0] && mark.length >= open.length && line.trim() === mark;
  return closes ? null : open;
}
