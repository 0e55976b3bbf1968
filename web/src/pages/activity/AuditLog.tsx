import { useState } from "react";
import { call } from "@/api/client";
import type { AuditedCall } from "@/api/types";
import { tOr } from "@/i18n";
import { problemText } from "@/i18n/problemText";
import { toast } from "@/state/toasts";
import { Button, LoadFailed, Moment, Select, Skeleton, Table } from "@/ui/components";
import { agentLabel } from "@/ui/agents";
import { useAction, useProject, useResource, useT } from "@/ui/hooks";
import { Link } from "@/ui/router";
import { paths } from "@/ui/routes";
import { toolLabel } from "@/ui/tools";
import styles from "./Activity.module.css";

const PAGE = 100;

/** Every tool call of the project's agents, newest first, with filters over what is loaded. */
export function AuditLog() {
  const t = useT();
  const { id } = useProject();
  const path = { project_id: id };
  const [filter, setFilter] = useState({ agent: "", tool: "", status: "" });
  const { data, problem, reload, setData } = useResource(`audit ${id}`, (signal) => call("GET /my/projects/{project_id}/audit", { path, query: { limit: PAGE } }, { signal }));
  const more = useAction(async () => {
    const page = await call("GET /my/projects/{project_id}/audit", { path, query: { limit: PAGE, offset: data?.items.length ?? 0 } });
    setData((before) => ({ ...page, items: [...before.items, ...page.items.filter((each) => !before.items.some((known) => known.id === each.id))] }));
  });
  const items = data?.items ?? [];
  const fitting = items.filter(({ agent, tool, status }) => (!filter.agent || agent === filter.agent) && (!filter.tool || tool === filter.tool) && (!filter.status || status === filter.status));
  const statusText = (status: string) => tOr(`activity.status_${status}`, status);
  const choices = (key: "agent" | "tool" | "status", all: string, text: (value: string) => string) => [
    { value: "", label: all },
    ...[...new Set(items.map((each) => each[key]))].sort().map((value) => ({ value, label: text(value) })),
  ];
  const loadMore = async () => {
    if (!(await more.run()) && more.problem) toast(problemText(more.problem), { kind: "error" });
  };
  return (
    <section aria-labelledby="audit" className="stack">
      <div className={styles.bar}>
        <div>
          <h2 id="audit">{t("activity.audit")}</h2>
          <p className="muted small">{t("activity.auditHint")}</p>
        </div>
        {items.length > 0 && (
          <div className="row">
            <Select label={t("activity.agent")} isLabelHidden value={filter.agent} onChange={(event) => setFilter({ ...filter, agent: event.target.value })} options={choices("agent", t("activity.allAgents"), agentLabel)} />
            <Select label={t("activity.tool")} isLabelHidden value={filter.tool} onChange={(event) => setFilter({ ...filter, tool: event.target.value })} options={choices("tool", t("activity.allTools"), toolLabel)} />
            <Select label={t("activity.status")} isLabelHidden value={filter.status} onChange={(event) => setFilter({ ...filter, status: event.target.value })} options={choices("status", t("activity.allStatuses"), statusText)} />
          </div>
        )}
      </div>
      {problem && <LoadFailed problem={problem} retry={reload} />}
      {!data && !problem && <Skeleton />}
      {data && fitting.length === 0 && <p className="muted">{items.length ? t("activity.auditNoneFits") : t("activity.auditNone")}</p>}
      {fitting.length > 0 && (
        <Table
          caption={t("activity.audit")}
          rows={fitting}
          rowKey={(each) => each.id}
          columns={[
            { key: "at", title: t("activity.time"), cell: ({ created_at }) => <Moment at={created_at} /> },
            { key: "agent", title: t("activity.agent"), cell: ({ agent }) => <span className="data">{agentLabel(agent)}</span> },
            { key: "tool", title: t("activity.tool"), cell: ({ tool }) => <span title={tool}>{toolLabel(tool)}</span> },
            { key: "arguments", title: t("activity.arguments"), cell: (each) => <span className={`${styles.arguments ?? ""} data`}>{argumentsOf(each)}</span> },
            { key: "status", title: t("activity.status"), cell: ({ status, error }) => <span title={error ?? undefined}>{statusText(status)}</span> },
            { key: "open", title: t("activity.conversation"), cell: ({ session_id }) => (session_id ? <Link to={paths.chat(id, session_id)}>{t("activity.open")}</Link> : "–") },
          ]}
        />
      )}
      {data && data.total > items.length && (
        <div>
          <Button isBusy={more.isBusy} onClick={() => void loadMore()}>
            {t("common.showMore")}
          </Button>
        </div>
      )}
    </section>
  );
}

/** What a call was about, in one line: paths and queries first, contents only as their size. */
function argumentsOf({ arguments: given }: AuditedCall): string {
  return Object.entries(given)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ")
    .slice(0, 200);
}
