import { FolderSearch, ShieldAlert, X } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { accountState } from "@/state/account";
import { suggestionsFor } from "@/state/suggestions";
import { visible } from "@/state/visible";
import { Button, IconButton } from "@/ui/components";
import { useCell, useProjectState, useResource, useT } from "@/ui/hooks";
import { Link } from "@/ui/router";
import { paths } from "@/ui/routes";
import styles from "./Welcome.module.css";

/** A new conversation: what could be done, and what works without a model. */
export function Welcome({ offer }: { offer: (text: string) => void }) {
  const t = useT();
  const { id, project, connector } = useProjectState();
  const models = useResource("models", () => call("GET /my/models")).data;
  const hasFolder = connector?.online ?? false;
  const place = (hasFolder ? connector?.workspace_name : null) ?? project?.name ?? "";
  const files = useResource(hasFolder ? `names ${id}` : null, (signal) => call("GET /my/projects/{project_id}/connector/files", { path: { project_id: id }, query: { limit: 100 } }, { signal })).data;
  const suggestions = hasFolder
    ? suggestionsFor(files?.items.map(({ path }) => path) ?? []).map(({ key, path }) => t(`chat.${key}`, { path: visible(path) }))
    : [t("chat.suggestIdea"), t("chat.suggestWrite"), t("chat.suggestCompare")];
  return (
    <div className={styles.welcome}>
      <h2 className={styles.question}>{place ? t("chat.emptyIn", { project: visible(place) }) : t("chat.empty")}</h2>
      {models?.demo && <DemoLine />}
      {models?.demo ? (
        <div className={styles.offers}>
          <Offer icon={<FolderSearch aria-hidden="true" size={20} />} title={t("chat.offerReview")} text={t("chat.offerReviewText")} isOff={!hasFolder} run={() => offer(t("chat.offerReview"))} />
          <Offer icon={<ShieldAlert aria-hidden="true" size={20} />} title={t("chat.offerSteal")} text={t("chat.offerStealText")} isOff={!hasFolder} run={() => offer(t("chat.offerSteal"))} />
        </div>
      ) : (
        <ul role="list" className={styles.suggestions} aria-label={t("chat.suggestions")}>
          {suggestions.map((text) => (
            <li key={text}>
              <Button onClick={() => offer(text)}>{text}</Button>
            </li>
          ))}
        </ul>
      )}
      {connector !== null && !hasFolder && (
        <p className="muted small">
          {t("chat.noFolder")}. <Link to={paths.files(id)}>{t("chat.connectFolder")}</Link>
        </p>
      )}
    </div>
  );
}

function Offer({ icon, title, text, isOff, run }: { icon: React.ReactNode; title: string; text: string; isOff: boolean; run: () => void }) {
  const t = useT();
  return (
    <button type="button" className={styles.offer} aria-disabled={isOff || undefined} onClick={() => !isOff && run()}>
      {icon}
      <strong>{title}</strong>
      <span className="muted small">{isOff ? t("chat.offerNeedsFolder") : text}</span>
    </button>
  );
}

function DemoLine() {
  const t = useT();
  const account = useCell(accountState);
  const [isShown, setShown] = useState(true);
  const isAdmin = account.phase === "signed_in" && account.account.is_admin;
  if (!isShown) return null;
  return (
    <div className={styles.demo}>
      <span>
        {t("chat.demoLine")}
        {isAdmin && <Link to={paths.manage()}>{t("chat.addModel")}</Link>}
      </span>
      <IconButton label={t("common.dismiss")} onClick={() => setShown(false)}>
        <X aria-hidden="true" size={14} />
      </IconButton>
    </div>
  );
}
