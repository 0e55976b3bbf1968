import { agentHue, agentLabel } from "../agents";
import styles from "./Avatar.module.css";
import { classes } from "./classes";

/** The letter of an agent in its colour; the name stands beside it. */
export function Avatar({ agent }: { agent: string }) {
  return (
    <span className={classes(styles.avatar, `hue${agentHue(agent)}`)} aria-hidden="true">
      {String.fromCodePoint(agentLabel(agent).codePointAt(0) ?? 0x3f)}
    </span>
  );
}
