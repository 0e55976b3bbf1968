import { call } from "@/api/client";
import type { LoginSession } from "@/api/types";
import { tOr } from "@/i18n";
import { formatDate } from "@/i18n/format";
import { problemText } from "@/i18n/problemText";
import { accountName, accountState, refreshAccount, signOut } from "@/state/account";
import { withBrowserName } from "@/state/browserName";
import { toast } from "@/state/toasts";
import { visible } from "@/state/visible";
import { Ago, Button, Form, FormError, LoadFailed, Skeleton, TextField, textOf } from "@/ui/components";
import { useAction, useCell, useResource, useT } from "@/ui/hooks";
import { Badge } from "@/ui/models";
import { NewKey } from "./NewKey";
import styles from "./Settings.module.css";

/** Who is signed in, with which password, and where else. */
export function AccountPart() {
  const t = useT();
  const state = useCell(accountState);
  const leave = useAction(signOut);
  if (state.phase !== "signed_in") return null;
  const { account } = state;
  return (
    <div className={styles.narrow}>
      <section className="stack" aria-label={t("settings.account")}>
        <div className="row spread">
          <div>
            <h2 className="data">{accountName(account)}</h2>
            <p className="muted small">
              {account.is_admin ? t("manage.admin") : t("manage.user")} · {t("settings.since", { date: formatDate(account.created_at) })}
            </p>
          </div>
          <Button isBusy={leave.isBusy} onClick={() => void leave.run()}>
            {t("shell.signOut")}
          </Button>
        </div>
        <FormError text={leave.problem && problemText(leave.problem)} />
      </section>
      <section className="stack" aria-label={t("settings.password")}>
        <h2>{t("settings.password")}</h2>
        {account.password_state === "external" ? <p className="muted">{t("settings.passwordExternal")}</p> : <PasswordForm isFirst={account.password_state === "missing"} />}
      </section>
      <Logins longest={account.login_seconds} />
    </div>
  );
}

function PasswordForm({ isFirst }: { isFirst: boolean }) {
  const t = useT();
  const save = async (form: FormData, element: HTMLFormElement) => {
    const changed = { new_password: textOf(form, "new"), ...(!isFirst && { old_password: textOf(form, "old") }) };
    await call("POST /auth/password", { body: changed });
    element.reset();
    toast(t("settings.passwordChanged"));
    await refreshAccount();
  };
  return (
    <Form submitLabel={isFirst ? t("settings.setPassword") : t("settings.changePassword")} onSubmit={save}>
      {!isFirst && <TextField label={t("settings.oldPassword")} name="old" type="password" autoComplete="current-password" required />}
      <TextField label={t("settings.newPassword")} name="new" type="password" autoComplete="new-password" hint={t("signIn.passwordHint")} minLength={8} required />
    </Form>
  );
}

const LISTED = 100;

function Logins({ longest }: { longest: number }) {
  const t = useT();
  const { data, problem, reload } = useResource("logins", (signal) => call("GET /auth/sessions", { query: { limit: LISTED } }, { signal }));
  const revoke = useAction(async (login: LoginSession) => {
    await call("DELETE /auth/sessions/{login_id}", { path: { login_id: login.id } });
    toast(t("settings.revoked"));
    reload();
  });
  return (
    <section className="stack" aria-label={t("settings.logins")}>
      <div className="row spread">
        <h2>{t("settings.logins")}</h2>
        <NewKey longest={longest} onMade={reload} />
      </div>
      <p className="muted small">{t("settings.loginsHint")}</p>
      {problem && <LoadFailed problem={problem} retry={reload} />}
      {!data && !problem && <Skeleton />}
      <FormError text={revoke.problem && problemText(revoke.problem)} />
      <ul role="list" className={styles.list}>
        {data?.items.map((login) => (
          <li key={login.id} className={styles.login}>
            <div>
              <p>
                {tOr(`settings.login_${login.kind}`, login.kind)} {login.is_current && <Badge kind="good">{t("settings.thisLogin")}</Badge>}
              </p>
              <p className="muted small">
                <span className="data" title={visible(login.label)}>{visible(withBrowserName(login.label)) || "–"}</span> · {t("settings.lastUsed")} <Ago at={login.last_used_at} />
              </p>
            </div>
            {!login.is_current && (
              <Button size="small" isBusy={revoke.isBusy} onClick={() => void revoke.run(login)}>
                {t("settings.revoke")}
              </Button>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
