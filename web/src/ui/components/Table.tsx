import type { ReactNode } from "react";
import styles from "./Table.module.css";

export interface Column<R> {
  key: string;
  title: ReactNode;
  cell: (row: R) => ReactNode;
  /** Numbers stand at the end of the cell. */
  isNumber?: boolean;
}

interface TableProps<R> {
  caption: string;
  columns: readonly Column<R>[];
  rows: readonly R[];
  rowKey: (row: R) => string | number;
}

export function Table<R>({ caption, columns, rows, rowKey }: TableProps<R>) {
  return (
    <div className={styles.frame} tabIndex={0} role="region" aria-label={caption}>
      <table className={styles.table}>
        <caption className="unseen">{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ key, title, isNumber }) => (
              <th key={key} scope="col" className={isNumber ? styles.end : undefined}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map(({ key, cell, isNumber }) => (
                <td key={key} className={isNumber ? styles.end : undefined}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
