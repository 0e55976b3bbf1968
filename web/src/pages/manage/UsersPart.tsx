import { Ellipsis, Plus } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { firstItems } from "@/api/paging";
import type { SignInLink, UserAccount } from "@/api/types";
import { formatBytes, formatDate, formatDateTime, formatMoney } from "@/i18n/format";
import { problemText } from "@/i18n/problemText";
import { accountName, accountState } from "@/state/account";
import { toast } from "@/state/toasts";
import { Button, Dialog, FormDialog, FormError, IconButton, LoadFailed, Menu, type MenuEntry, Skeleton, Switch, Table, TextField, textOf } from "@/ui/components";
import { copyAndTell } from "@/ui/clipboard";
import { useAction, useCell, useResource, useT } from "@/ui/hooks";
import { Badge } from "@/ui/models";
import { hrefOf } from "@/ui/router";
import styles from "./Manage.module.css";

const STEP = 50;
const MEGABYTE = 1_000_000;

type Opened = { kind: "limits" | "delete"; user: UserAccount } | { kind: "link"; name: string; link: string; expiresAt: string | null } | { kind: "add" } | null;

/** Users, what they may spend, and whether anybody may register. */
export function UsersPart() {
  const t = useT();
  const [count, setCount] = useState(STEP);
  const [opened, setOpened] = useState<Opened>(null);
  const { data, problem, isLoading, reload } = useResource(`users${count}`, (signal) => firstItems(count, (query) => call("GET /admin/users", { query }, { signal })));
  const showLink = (name: string, { link, link_expires_at }: SignInLink) => {
    if (link !== null) setOpened({ kind: "link", name, link, expiresAt: link_expires_at });
  };
  return (
    <>
      <Registration />
      <section className="stack" aria-label={t("manage.users")}>
        <div className={styles.head}>
          <h2>{t("manage.users")}</h2>
          <Button kind="primary" onClick={() => setOpened({ kind: "add" })}>
            <Plus aria-hidden="true" size={16} />
            {t("manage.addUser")}
          </Button>
        </div>
        {problem && <LoadFailed problem={problem} retry={reload} />}
        {!data && !problem && <Skeleton />}
        {data && <UserTable users={data.items} open={setOpened} showLink={showLink} />}
        {data && data.total > data.items.length && (
          <div>
            <Button isBusy={isLoading} onClick={() => setCount(count + STEP)}>
              {t("common.showMore")}
            </Button>
          </div>
        )}
      </section>
      {opened?.kind === "add" && <AddUser onClose={() => setOpened((now) => (now?.kind === "add" ? null : now))} onAdded={reload} showLink={showLink} />}
      {opened?.kind === "limits" && <Limits user={opened.user} onClose={() => setOpened(null)} onChanged={reload} />}
      {opened?.kind === "delete" && <DeleteUser user={opened.user} onClose={() => setOpened(null)} onDeleted={reload} />}
      {opened?.kind === "link" && <LinkDialog {...opened} onClose={() => setOpened(null)} />}
    </>
  );
}

function Registration() {
  const t = useT();
  const { data, problem, reload, setData } = useResource("registration", (signal) => call("GET /admin/settings", {}, { signal }));
  const change = useAction(async (isOpen: boolean) => {
    const changed = await call("PATCH /admin/settings", { body: { registration_open: isOpen } });
    setData(() => changed);
    toast(t("settings.saved"));
  });
  if (problem) return <LoadFailed problem={problem} retry={reload} />;
  if (!data) return <Skeleton lines={1} />;
  const { value, source, variable } = data.registration_open;
  const isFixed = source === "environment";
  return (
    <div>
      <Switch
        label={t("manage.registration")}
        hint={isFixed ? t("models.setBy", { variable }) : t("manage.registrationHint")}
        checked={value === true}
        disabled={isFixed || change.isBusy}
        onChange={(event) => void change.run(event.target.checked)}
      />
      <FormError text={change.problem && problemText(change.problem)} />
    </div>
  );
}

function UserTable({ users, open, showLink }: { users: readonly UserAccount[]; open: (opened: Opened) => void; showLink: (name: string, link: SignInLink) => void }) {
  const t = useT();
  const own = useCell(accountState);
  const newLink = useAction(async (user: UserAccount) => {
    showLink(accountName(user), await call("POST /admin/users/{user_id}/password", { path: { user_id: user.user_id }, body: {} }));
  });
  const limit = (value: number | null, format: (value: number) => string) => (value === null ? t("manage.serverDefault") : value < 0 ? t("manage.noLimit") : format(value));
  const entries = (user: UserAccount): MenuEntry[] => {
    const isOwn = own.phase === "signed_in" && own.account.user_id === user.user_id;
    const all: MenuEntry[] = [
      { label: t("manage.limits"), run: () => open({ kind: "limits", user }) },
      { label: t("manage.newLink"), run: () => void newLink.run(user) },
    ];
    return isOwn ? all : [...all, { kind: "line" }, { label: t("manage.deleteUser"), isDanger: true, run: () => open({ kind: "delete", user }) }];
  };
  return (
    <>
      <FormError text={newLink.problem && problemText(newLink.problem)} />
      <Table
        caption={t("manage.users")}
        rows={users}
        rowKey={({ user_id }) => user_id}
        columns={[
          {
            key: "email",
            title: t("manage.email"),
            cell: (user) => (
              <>
                <span className="data">{accountName(user)}</span> {user.is_admin && <Badge>{t("manage.admin")}</Badge>}
              </>
            ),
          },
          { key: "created", title: t("manage.created"), cell: ({ created_at }) => formatDate(created_at) },
          {
            key: "budget",
            title: t("manage.budget"),
            isNumber: true,
            cell: ({ monthly_budget_usd, spent_usd }) => (
              <>
                {limit(monthly_budget_usd, formatMoney)}
                {spent_usd > 0 && <p className="muted small">{t("manage.spent", { amount: formatMoney(spent_usd) })}</p>}
              </>
            ),
          },
          { key: "storage", title: t("manage.storage"), isNumber: true, cell: ({ storage_bytes }) => limit(storage_bytes, formatBytes) },
          {
            key: "actions",
            title: <span className="unseen">{t("common.more")}</span>,
            isNumber: true,
            cell: (user) => (
              <Menu
                label={t("manage.actionsOf", { name: accountName(user) })}
                align="end"
                entries={entries(user)}
                trigger={
                  <IconButton label={t("manage.actionsOf", { name: accountName(user) })}>
                    <Ellipsis aria-hidden="true" size={18} />
                  </IconButton>
                }
              />
            ),
          },
        ]}
      />
    </>
  );
}

function AddUser({ onClose, onAdded, showLink }: { onClose: () => void; onAdded: () => void; showLink: (name: string, link: SignInLink) => void }) {
  const t = useT();
  const add = async (form: FormData) => {
    const password = textOf(form, "password");
    const added = await call("POST /admin/users", { body: { email: textOf(form, "email").trim(), ...(password && { password }) } });
    onAdded();
    showLink(accountName(added), added);
  };
  return (
    <FormDialog title={t("manage.addUser")} submitLabel={t("manage.addUser")} onSubmit={add} onClose={onClose}>
      <TextField label={t("manage.email")} name="email" type="email" required autoComplete="off" />
      <TextField label={t("manage.password")} name="password" type="password" minLength={8} autoComplete="new-password" hint={t("manage.addUserHint")} />
    </FormDialog>
  );
}

function LinkDialog({ name, link, expiresAt, onClose }: { name: string; link: string; expiresAt: string | null; onClose: () => void }) {
  const t = useT();
  const url = location.origin + hrefOf(link);
  return (
    <Dialog title={t("manage.link", { name })} onClose={onClose}>
      <p>{t("manage.linkHint", { time: expiresAt === null ? "–" : formatDateTime(expiresAt) })}</p>
      <TextField label={t("manage.link", { name })} isLabelHidden value={url} readOnly isMono onFocus={(event) => event.target.select()} />
      <div>
        <Button kind="primary" onClick={() => void copyAndTell(url)}>
          {t("common.copy")}
        </Button>
      </div>
    </Dialog>
  );
}

function Limits({ user, onClose, onChanged }: { user: UserAccount; onClose: () => void; onChanged: () => void }) {
  const t = useT();
  const save = async (form: FormData) => {
    const number = (name: string) => (textOf(form, name).trim() === "" ? null : Number(textOf(form, name)));
    const megabytes = number("storage");
    const storage = megabytes === null || megabytes < 0 ? megabytes : Math.round(megabytes * MEGABYTE);
    await call("PATCH /admin/users/{user_id}", { path: { user_id: user.user_id }, body: { monthly_budget_usd: number("budget"), storage_bytes: storage } });
    toast(t("settings.saved"));
    onChanged();
  };
  const { monthly_budget_usd: budget, storage_bytes: storage } = user;
  return (
    <FormDialog title={t("manage.limitsOf", { name: accountName(user) })} submitLabel={t("common.save")} onSubmit={save} onClose={onClose}>
      <TextField label={t("manage.budget")} name="budget" type="number" min={-1} step="any" defaultValue={budget ?? ""} hint={t("manage.budgetHint")} />
      <TextField label={t("manage.storage")} name="storage" type="number" min={-1} step="any" defaultValue={storage === null || storage < 0 ? (storage ?? "") : storage / MEGABYTE} hint={t("manage.storageHint")} />
    </FormDialog>
  );
}

function DeleteUser({ user, onClose, onDeleted }: { user: UserAccount; onClose: () => void; onDeleted: () => void }) {
  const t = useT();
  const name = accountName(user);
  const remove = async () => {
    await call("DELETE /admin/users/{user_id}", { path: { user_id: user.user_id } });
    toast(t("manage.userDeleted"));
    onDeleted();
  };
  return (
    <FormDialog title={t("manage.deleteUser")} isAlert submitLabel={t("manage.deleteUser")} submitKind="danger" onSubmit={remove} onClose={onClose}>
      <p>{t("manage.deleteUserHint", { name })}</p>
      <TextField
        label={t("settings.typeName", { name })}
        required
        autoComplete="off"
        onChange={({ target }) => target.setCustomValidity(target.value.trim() === name ? "" : t("settings.nameDiffers"))}
      />
    </FormDialog>
  );
}
