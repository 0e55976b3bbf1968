import type { ReactNode } from "react";
import { classes } from "./classes";
import styles from "./Table.module.css";

export interface Column<R> {
  key: string;
  title: ReactNode;
  cell: (row: R) => ReactNode;
  /** Numbers stand at the end of the cell. */
  isNumber?: boolean;
  /** Too short to be worth a line break: times, states. */
  isShort?: boolean;
}

interface TableProps<R> {
  caption: string;
  columns: readonly Column<R>[];
  rows: readonly R[];
  rowKey: (row: R) => string | number;
  /** Columns of fixed widths: tables below each other have theirs in line. */
  isEven?: boolean;
}

/** A table; where it is narrow, each row becomes a list of titles and values. The roles stay, whatever the layout is. */
export function Table<R>({ caption, columns, rows, rowKey, isEven = false }: TableProps<R>) {
  return (
    <div className={styles.frame} tabIndex={0} role="region" aria-label={caption}>
      <table className={classes(styles.table, isEven && styles.even)} role="table">
        <caption className="unseen">{caption}</caption>
        <thead role="rowgroup" className={styles.head}>
          <tr role="row">
            {columns.map(({ key, title, isNumber }) => (
              <th key={key} scope="col" role="columnheader" className={isNumber ? styles.end : undefined}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={rowKey(row)} role="row" className={styles.row}>
              {columns.map(({ key, title, cell, isNumber, isShort }) => (
                <td key={key} role="cell" data-title={typeof title === "string" ? title : undefined} className={isNumber ? styles.end : isShort ? styles.short : undefined}>
                  <div>{cell(row)}</div>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
