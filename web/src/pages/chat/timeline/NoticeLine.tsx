import { CircleAlert, CircleStop } from "lucide-react";
import { memo } from "react";
import { call } from "@/api/client";
import { tOr } from "@/i18n";
import { codeText } from "@/i18n/problemText";
import { accountState } from "@/state/account";
import type { EntryOf } from "@/state/session/types";
import { toast } from "@/state/toasts";
import { Button, Moment, Prose, classes } from "@/ui/components";
import { useCell, useProject, useSelected, useT } from "@/ui/hooks";
import { navigate } from "@/ui/router";
import { paths } from "@/ui/routes";
import { useChat } from "../chatContext";
import { useAttempt } from "../useAttempt";
import styles from "./Timeline.module.css";

/** Why an answer is missing or incomplete, and what to do about it. */
export const NoticeLine = memo(function NoticeLine({ entry, isCutOff, isFolded = false }: { entry: EntryOf<"notice">; isCutOff: boolean; isFolded?: boolean }) {
  const t = useT();
  const { conversation } = useChat();
  const { attempt, isBusy } = useAttempt();
  const isWorking = useSelected(conversation.store, (state) => Object.keys(state.turns).length > 0);
  const { code } = entry.notice;
  const { turn_id } = entry;
  const isQuiet = code === "cancelled";
  const text = tOr(`chat.notice_${code ?? ""}`, codeText(code ?? "", entry.text));
  return (
    <div className={classes(styles.notice, isQuiet && styles.quiet)} role="group" aria-label={t("chat.notice")}>
      {isQuiet ? <CircleStop aria-hidden="true" size={16} /> : <CircleAlert aria-hidden="true" size={16} />}
      <span className={classes(styles.words, "data")}>
        <Prose text={text} />
        {text !== entry.text && !isQuiet && (
          <details className="small muted">
            <summary>{t("errors.serverWords")}</summary>
            <Prose text={entry.text} />
          </details>
        )}
      </span>
      <Moment at={entry.at} />
      {turn_id !== null && !isFolded && (
        <span className={styles.changeActions}>
          {isCutOff && (
            <Button size="small" kind="primary" isBusy={isBusy} isDisabled={isWorking} onClick={() => attempt(() => conversation.continueAnswer(turn_id))}>
              {t("chat.continue")}
            </Button>
          )}
          <Button size="small" isDisabled={isWorking} onClick={() => attempt(() => conversation.retry(turn_id))}>
            {t("chat.again")}
          </Button>
          <Remedy code={code ?? ""} />
        </span>
      )}
    </div>
  );
});

/** What helps against a certain failure. */
function Remedy({ code }: { code: string }) {
  const t = useT();
  const project = useProject();
  const account = useCell(accountState);
  const { attempt, isBusy } = useAttempt();
  const isAdmin = account.phase === "signed_in" && account.account.is_admin;
  if (code === "budget_exceeded") {
    return (
      <Button size="small" onClick={() => navigate(paths.projectSettings(project.id, "approvals"))}>
        {t("chat.raiseBudget")}
      </Button>
    );
  }
  if (code === "account_budget_exceeded") {
    return (
      <>
        <Button size="small" onClick={() => navigate(paths.settings("usage"))}>
          {t("chat.showUsage")}
        </Button>
        {isAdmin && (
          <Button size="small" onClick={() => navigate(paths.manage("users"))}>
            {t("chat.raiseLimit")}
          </Button>
        )}
      </>
    );
  }
  if (!code.startsWith("model_")) return null;
  const useDefault = async () => {
    const { default_model } = await call("GET /my/models");
    const agents = project.state.get().project?.agents ?? [];
    for (const { id, model } of agents) {
      if (model !== default_model) await call("PATCH /my/projects/{project_id}/agents/{agent_id}", { path: { project_id: project.id, agent_id: id }, body: { model: default_model } });
    }
    project.reload("project");
    toast(t("chat.modelsChanged", { model: default_model }));
  };
  return (
    <>
      {code === "model_not_configured" && (
        <Button size="small" isBusy={isBusy} onClick={() => attempt(useDefault)}>
          {t("chat.useDefaultModel")}
        </Button>
      )}
      <Button size="small" onClick={() => navigate(paths.agents(project.id))}>
        {t("chat.otherModel")}
      </Button>
      {isAdmin && (
        <Button size="small" onClick={() => navigate(paths.manage())}>
          {t("chat.openModels")}
        </Button>
      )}
    </>
  );
}
