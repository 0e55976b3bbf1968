/** Return the name of a tool for people: `tool_read_file` is "Read file". */
export function toolLabel(name: string): string {
  const words = name.replace(/^tool_/, "").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
