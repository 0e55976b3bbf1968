export { AppShell } from "./AppShell";
export { PageFrame, SidePanel } from "./PageFrame";
