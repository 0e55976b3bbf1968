import { useState } from "react";
import { call } from "@/api/client";
import { formatDate } from "@/i18n/format";
import { EmptyState, LoadFailed, Select, Skeleton } from "@/ui/components";
import { useResource, useT } from "@/ui/hooks";
import { DayChart, UsageFigures, UsageTable } from "@/ui/usage";

const RANGES = [7, 30, 90];

/** What all users used: by day, user and model. */
export function UsagePart() {
  const t = useT();
  const [days, setDays] = useState(30);
  const { data, problem, reload } = useResource(`usage${days}`, (signal) => call("GET /admin/usage", { query: { days } }, { signal }));
  const ranges = RANGES.map((count) => ({ value: String(count), label: t("manage.days", { count }) }));
  return (
    <>
      <div className="brief">
        <Select label={t("manage.range")} options={ranges} value={String(days)} onChange={(event) => setDays(Number(event.target.value))} />
      </div>
      {problem && <LoadFailed problem={problem} retry={reload} />}
      {!data && !problem && <Skeleton lines={8} />}
      {data?.sum.calls === 0 && <EmptyState title={t("usage.empty")} text={t("usage.emptyHint")} />}
      {data && data.sum.calls > 0 && (
        <>
          <UsageFigures sum={data.sum} />
          <DayChart first={data.first_day} last={data.last_day} costs={new Map(data.by_day.map(({ day, cost_usd }) => [day, cost_usd]))} />
          <UsageTable title={t("usage.byUser")} of={t("manage.user")} rows={data.by_user} rowKey={({ user_id }) => user_id} name={({ email, user_id }) => email ?? user_id} />
          <UsageTable title={t("usage.byModel")} of={t("models.model")} rows={data.by_model} rowKey={({ model }) => model} name={({ model }) => model} />
          <UsageTable title={t("usage.byDay")} of={t("usage.day")} rows={[...data.by_day].reverse()} rowKey={({ day }) => day} name={({ day }) => formatDate(`${day}T12:00`)} />
        </>
      )}
    </>
  );
}
