import { ShieldCheck } from "lucide-react";
import { call } from "@/api/client";
import { tOr } from "@/i18n";
import { problemText } from "@/i18n/problemText";
import { toast } from "@/state/toasts";
import { visible } from "@/state/visible";
import { Button, EmptyState, LoadFailed, Moment, Prose, Skeleton, Table } from "@/ui/components";
import { useAction, useProjectState, useResource, useT } from "@/ui/hooks";
import styles from "./Files.module.css";

/** What agents may do in the folder without asking; each can be revoked. */
export function Grants({ projectId }: { projectId: number }) {
  const t = useT();
  const { connector } = useProjectState();
  const isOnline = connector?.online ?? false;
  const { data, problem, reload } = useResource(isOnline ? `grants ${projectId}` : null, (signal) =>
    call("GET /my/projects/{project_id}/connector/grants", { path: { project_id: projectId }, query: { limit: 100 } }, { signal }),
  );
  const revoke = useAction(async (id: string) => {
    await call("DELETE /my/projects/{project_id}/connector/grants/{grant_id}", { path: { project_id: projectId, grant_id: id } });
    reload();
    toast(t("files.revoked"));
  });
  if (connector === null) return <Skeleton />;
  if (!isOnline) return <EmptyState title={t("files.none")} text={t("files.offline")} />;
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton />;
  if (!data.items.length) return <EmptyState title={t("files.noGrants")} text={t("files.noGrantsText")} icon={<ShieldCheck aria-hidden="true" size={32} />} />;
  return (
    <>
      <Table
        caption={t("files.grants")}
        rows={data.items}
        rowKey={({ id }) => id}
        columns={[
          { key: "what", title: t("files.allowed"), cell: ({ what }) => tOr(`files.grant_${what}`, what) },
          { key: "glob", title: t("files.glob"), cell: ({ glob }) => <code className="data">{visible(glob)}</code> },
          { key: "lasts", title: t("files.lasts"), cell: ({ lasts }) => tOr(`files.lasts_${lasts}`, lasts) },
          { key: "since", title: t("files.since"), cell: ({ since }) => since && <Moment at={since} /> },
          {
            key: "revoke",
            title: <span className="unseen">{t("files.revoke")}</span>,
            cell: ({ id, glob }) => (
              <Button size="small" aria-label={`${t("files.revoke")} ${visible(glob)}`} onClick={() => void revoke.run(id)}>
                {t("files.revoke")}
              </Button>
            ),
          },
        ]}
      />
      <p role="alert" className={styles.error}>
        {revoke.problem && <Prose text={problemText(revoke.problem)} />}
      </p>
    </>
  );
}
