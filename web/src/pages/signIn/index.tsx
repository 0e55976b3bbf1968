import { useState } from "react";
import { type AccountState, type SignedOutNotice, register, replaceAccount, signIn } from "@/state/account";
import { Button, Form, FormDialog, Prose, TextField, textOf } from "@/ui/components";
import { useT } from "@/ui/hooks";
import { hrefOf } from "@/ui/router";
import styles from "./SignIn.module.css";

const MIN_PASSWORD = 8;
const IS_LOCAL = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

/** E-mail and password, a new account where that is open, or a hint to `artel link`. */
export default function SignIn({ state }: { state: Extract<AccountState, { phase: "signed_out" | "asking" }> }) {
  const t = useT();
  const [isNew, setNew] = useState(false);
  if (state.phase === "asking") return <ChangeAccount question={state.question} />;
  const submit = async (form: FormData) => {
    const [email, password] = [textOf(form, "email").trim(), textOf(form, "password")];
    await (isNew ? register(email, password) : signIn(email, password));
  };
  return (
    <main className={styles.page}>
      <div className={styles.card}>
        <div className={styles.brand}>
          <img src={hrefOf("/assets/icon.svg")} alt="" width={32} height={32} />
          {t("common.appName")}
        </div>
        <div>
          <h1>{isNew ? t("signIn.create") : t("signIn.title")}</h1>
          <p className="muted">{t("signIn.tagline")}</p>
        </div>
        <Notice notice={state.notice} />
        <Form submitLabel={isNew ? t("signIn.submitNew") : t("signIn.submit")} onSubmit={submit}>
          {/* No type="email": browsers refuse or rewrite addresses that the server takes. */}
          <TextField
            label={t("signIn.email")}
            name="email"
            type="text"
            inputMode="email"
            autoComplete="username"
            autoCapitalize="none"
            spellCheck={false}
            required
            pattern="\s*[^@\s]+@[^@\s]+\s*"
            title={t("signIn.emailHint")}
            autoFocus
          />
          <TextField
            key={isNew ? "new" : "known"}
            label={t("signIn.password")}
            name="password"
            type="password"
            autoComplete={isNew ? "new-password" : "current-password"}
            minLength={isNew ? MIN_PASSWORD : undefined}
            hint={isNew ? t("signIn.passwordHint") : undefined}
            required
          />
        </Form>
        {(state.registrationOpen || isNew) && (
          <p>
            {isNew ? t("signIn.beenHere") : t("signIn.newHere")}{" "}
            <Button kind="link" onClick={() => setNew(!isNew)}>
              {isNew ? t("signIn.instead") : t("signIn.create")}
            </Button>
          </p>
        )}
      </div>
      <p className={styles.hint}>
        {!IS_LOCAL && <Prose text={t("signIn.linkHint")} />} <a href={hrefOf("/docs")}>{t("shell.apiDocs")}</a>
      </p>
    </main>
  );
}

/** Why nobody is signed in. On the server's own machine a link comes first: its user has no password. */
function Notice({ notice }: { notice: SignedOutNotice | null }) {
  const t = useT();
  const text = notice && (notice.kind === "left" ? t("signIn.left") : notice.kind === "ended" ? t("signIn.signedOut", { reason: notice.reason }) : notice.reason);
  return (
    <>
      <div role="status">
        {text && (
          <p className={styles.note}>
            <Prose text={text} />
          </p>
        )}
      </div>
      {IS_LOCAL && notice?.kind !== "link" && (
        <p className={styles.local}>
          <Prose text={t("signIn.linkHint")} />
        </p>
      )}
    </>
  );
}

function ChangeAccount({ question }: { question: string }) {
  const t = useT();
  return (
    <FormDialog
      isAlert
      title={t("signIn.changeTitle")}
      submitLabel={t("signIn.change")}
      cancelLabel={t("signIn.stay")}
      onSubmit={() => replaceAccount(true)}
      onClose={() => void replaceAccount(false)}
    >
      <p>
        <Prose text={question} />
      </p>
    </FormDialog>
  );
}
