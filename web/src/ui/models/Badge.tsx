import type { ReactNode } from "react";
import { classes } from "../components";
import styles from "./Models.module.css";

/** A word about the state of something; never by colour alone. */
export function Badge({ kind = "plain", children }: { kind?: "plain" | "good" | "bad" | "warning"; children: ReactNode }) {
  return <span className={classes(styles.badge, styles[kind])}>{children}</span>;
}
