import styles from "./Rail.module.css";

/** The number of questions that wait, at the corner of an icon. */
export function CountBadge({ count }: { count: number }) {
  return count > 0 && <span className={styles.badge}>{count > 99 ? "99+" : count}</span>;
}
