// Server-sent events: text in pieces of any size, frames out.

export interface Frame {
  /** Number of a stored event; null for partial text. */
  id: number | null;
  event: string;
  data: string;
}

export interface EventParser {
  /** Return the frames that are complete with this piece; comments only show that the line is alive. */
  push(piece: string): Frame[];
}

export function createEventParser(): EventParser {
  let rest = "";
  return {
    push(piece) {
      const blocks = (rest + piece).replaceAll("\r\n", "\n").split("\n\n");
      rest = blocks.pop() ?? "";
      return blocks.map(frameOf).filter((frame) => frame !== null);
    },
  };
}

function frameOf(block: string): Frame | null {
  let [id, event]: [number | null, string] = [null, "message"];
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const [, name, value] = /^(\w+): ?(.*)$/s.exec(line) ?? [];
    if (name === "id") id = Number(value);
    else if (name === "event") event = value ?? "";
    else if (name === "data") data.push(value ?? "");
  }
  return data.length ? { id, event, data: data.join("\n") } : null;
}
