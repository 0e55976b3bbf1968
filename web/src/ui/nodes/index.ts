export { Nodes } from "./Nodes";
