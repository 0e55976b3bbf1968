import { tOr } from "@/i18n";
import { call } from "@/api/client";
import type { SystemPart as Part } from "@/api/types";
import { formatBytes, formatDateTime, formatNumber } from "@/i18n/format";
import { Button, LoadFailed, Prose, Skeleton, Table } from "@/ui/components";
import { useResource, useT } from "@/ui/hooks";
import { Badge } from "@/ui/models";
import styles from "./Manage.module.css";

/** What `artel doctor` knows of the server. */
export function SystemPart() {
  const t = useT();
  const { data, problem, isLoading, reload } = useResource("system", (signal) => call("GET /admin/system", {}, { signal }));
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton lines={8} />;
  const { data_folder: folder } = data;
  const facts: [string, string][] = [
    [t("manage.version"), data.version],
    ["Python", data.python],
    [t("manage.started"), formatDateTime(data.started_at)],
    [t("manage.database"), data.database],
    [t("manage.schema"), data.schema_revision === data.schema_needed ? data.schema_needed : `${data.schema_revision ?? "–"} → ${data.schema_needed}`],
    [t("manage.accounts"), formatNumber(data.accounts)],
    [t("manage.nodes"), formatNumber(data.nodes)],
    [t("manage.memoriesWaiting"), formatNumber(data.memories_waiting)],
    [t("manage.dataFolder"), `${formatBytes(folder.bytes)}${folder.is_complete ? "" : "+"} · ${folder.path}`],
  ];
  return (
    <>
      <section className="stack" aria-label={t("manage.parts")}>
        <div className={styles.head}>
          <h2>{t("manage.parts")}</h2>
          <Button isBusy={isLoading} onClick={reload}>
            {t("manage.checkAgain")}
          </Button>
        </div>
        <Table
          caption={t("manage.parts")}
          rows={data.parts}
          rowKey={({ part }) => part}
          columns={[
            { key: "part", title: t("manage.part"), cell: ({ part }) => tOr(`manage.part_${part.replaceAll(" ", "_")}`, part) },
            { key: "state", title: t("manage.state"), cell: (part) => <Verdict part={part} /> },
            {
              key: "detail",
              title: t("manage.detail"),
              cell: ({ detail, advice }) => (
                <>
                  <Prose text={detail === "works" ? t("manage.works") : detail} />
                  {advice && (
                    <p className="small">
                      <Prose text={advice} />
                    </p>
                  )}
                </>
              ),
            },
          ]}
        />
      </section>
      <section className="stack" aria-label={t("manage.server")}>
        <h2>{t("manage.server")}</h2>
        <Table
          caption={t("manage.server")}
          rows={facts}
          rowKey={([name]) => name}
          columns={[
            { key: "name", title: t("manage.fact"), cell: ([name]) => name },
            { key: "value", title: t("manage.value"), cell: ([, value]) => <span className="data">{value}</span> },
          ]}
        />
      </section>
      {data.processes.length > 0 && (
        <section className="stack" aria-label={t("manage.processes")}>
          <h2>{t("manage.processes")}</h2>
          <Table
            caption={t("manage.processes")}
            rows={data.processes}
            rowKey={({ id }) => id}
            columns={[
              { key: "id", title: t("manage.process"), cell: ({ id }) => <span className={`${styles.mono} data`}>{id}</span> },
              { key: "spaces", title: t("manage.openProjects"), isNumber: true, cell: ({ spaces }) => formatNumber(spaces) },
              { key: "alive", title: t("manage.state"), cell: ({ is_alive }) => <Badge kind={is_alive ? "good" : "bad"}>{is_alive ? t("manage.alive") : t("manage.lost")}</Badge> },
            ]}
          />
        </section>
      )}
    </>
  );
}

function Verdict({ part: { verdict } }: { part: Part }) {
  const t = useT();
  if (verdict === "ok") return <Badge kind="good">{t("manage.ok")}</Badge>;
  return verdict === "warning" ? <Badge kind="warning">{t("manage.warning")}</Badge> : <Badge kind="bad">{t("manage.failed")}</Badge>;
}
