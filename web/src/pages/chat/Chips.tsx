import { agentLabel } from "@/ui/agents";
import { useProjectState, useT } from "@/ui/hooks";
import styles from "./Composer.module.css";
import { AUTO, type PlanMode, type Recipient } from "./recipient";

const MODES: readonly PlanMode[] = ["auto", "ask", "never"];

export function RecipientChip({ recipient }: { recipient: Recipient }) {
  const t = useT();
  const { project } = useProjectState();
  const agents = project?.agents ?? [];
  const isGone = recipient.name !== AUTO && !agents.some(({ name }) => name === recipient.name);
  return (
    <select className={styles.to} aria-label={t("chat.recipient")} value={recipient.name} onChange={(event) => recipient.set(event.target.value === AUTO ? null : event.target.value)}>
      <option value={AUTO}>{t("common.auto")}</option>
      {isGone && <option value={recipient.name}>{agentLabel(recipient.name)}</option>}
      {agents.map(({ id, name }) => (
        <option key={id} value={name}>
          {agentLabel(name)}
        </option>
      ))}
    </select>
  );
}

/** When plans are made and asked about; without effect on messages to one agent. */
export function PlanChip({ mode, setMode }: { mode: PlanMode; setMode: (mode: PlanMode) => void }) {
  const t = useT();
  return (
    <select className={styles.to} aria-label={t("chat.planMode")} title={t("chat.planModeHint")} value={mode} onChange={(event) => setMode(event.target.value as PlanMode)}>
      {MODES.map((each) => (
        <option key={each} value={each}>
          {t(`chat.planMode_${each}`)}
        </option>
      ))}
    </select>
  );
}
