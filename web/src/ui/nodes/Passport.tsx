import { call } from "@/api/client";
import { Dialog, LoadFailed, Skeleton } from "../components";
import { useResource, useT } from "../hooks";
import styles from "./Nodes.module.css";

/** All that a node says about itself. */
export function Passport({ name, onClose }: { name: string; onClose: () => void }) {
  const t = useT();
  const { data, problem, reload } = useResource(`passport ${name}`, (signal) => call("GET /nodes/{name}", { path: { name } }, { signal }));
  return (
    <Dialog title={t("manage.passport", { name })} isWide onClose={onClose}>
      {problem && <LoadFailed problem={problem} retry={reload} />}
      {!data && !problem && <Skeleton />}
      {data?.description && <p className="data">{data.description}</p>}
      {data && (
        <pre className={`${styles.pre} data`} tabIndex={0}>
          {JSON.stringify(data.passport, null, 2)}
        </pre>
      )}
    </Dialog>
  );
}
