import { useState } from "react";
import { call } from "@/api/client";
import { firstItems } from "@/api/paging";
import type { Action } from "@/api/types";
import { tOr } from "@/i18n";
import { withBrowserName } from "@/state/browserName";
import { visible } from "@/state/visible";
import { Button, EmptyState, LoadFailed, Moment, Select, Skeleton, Table } from "@/ui/components";
import { useResource, useT } from "@/ui/hooks";

const STEP = 50;
const MOST = 500;
const ALL = "";
const ACTIONS: readonly Action[] = [
  "account_created",
  "account_deleted",
  "login",
  "login_failed",
  "password_changed",
  "limits_changed",
  "space_reset",
  "node_controlled",
  "provider_added",
  "provider_changed",
  "provider_deleted",
  "settings_changed",
];

/** Who signed in, and what administrators did. */
export function AuditPart() {
  const t = useT();
  const [action, setAction] = useState<Action | typeof ALL>(ALL);
  const [count, setCount] = useState(STEP);
  const { data, problem, isLoading, reload } = useResource(`audit ${action} ${count}`, (signal) =>
    firstItems(count, (page) => call("GET /admin/audit", { query: { ...page, ...(action !== ALL && { action }) } }, { signal })),
  );
  const nameOf = (name: string) => tOr(`manage.action_${name}`, name);
  const options = [{ value: ALL, label: t("manage.allActions") }, ...ACTIONS.map((value) => ({ value, label: nameOf(value) }))];
  return (
    <>
      <div className="brief">
        <Select label={t("manage.action")} options={options} value={action} onChange={(event) => setAction(event.target.value as Action | typeof ALL)} />
      </div>
      {problem && <LoadFailed problem={problem} retry={reload} />}
      {!data && !problem && <Skeleton lines={8} />}
      {data?.items.length === 0 && <EmptyState title={t("manage.noAudit")} />}
      {data && data.items.length > 0 && (
        <Table
          caption={t("manage.audit")}
          rows={data.items}
          rowKey={({ id }) => id}
          columns={[
            { key: "at", title: t("manage.when"), cell: ({ at }) => <Moment at={at} /> },
            { key: "actor", title: t("manage.actor"), cell: ({ actor }) => <span className="data">{visible(actor)}</span> },
            { key: "action", title: t("manage.action"), cell: (entry) => nameOf(entry.action) },
            { key: "target", title: t("manage.target"), cell: ({ target }) => target && <span className="data">{visible(target)}</span> },
            { key: "detail", title: t("manage.detail"), cell: ({ detail }) => detail && <span className="data small" title={visible(detail)}>{visible(withBrowserName(detail))}</span> },
          ]}
        />
      )}
      {data && data.total > data.items.length && count < MOST && (
        <div>
          <Button isBusy={isLoading} onClick={() => setCount(Math.min(count + STEP, MOST))}>
            {t("common.showMore")}
          </Button>
        </div>
      )}
    </>
  );
}
