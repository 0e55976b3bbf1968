import type { ReactNode } from "react";
import { formatDateTime, formatDuration, formatMoney, formatNumber } from "@/i18n/format";
import { agentLabel } from "@/ui/agents";
import { useProject, useSelected, useT } from "@/ui/hooks";
import styles from "./AnswerDetails.module.css";
import { UsedMemories } from "./UsedMemories";
import { useChat } from "./chatContext";

/** Who answered, with which model, for how much, how fast, and with how many memories. */
export function AnswerDetails({ messageId }: { messageId: string }) {
  const t = useT();
  const project = useProject();
  const { conversation } = useChat();
  const item = useSelected(conversation.store, (state) => state.items[messageId]);
  if (item?.kind !== "message") return <p className="muted">{t("chat.noDetails")}</p>;
  const { usage, duration_ms, context, agent_id, agent } = item.message;
  const turnId = item.message.turn_id;
  const name = project.agentName(agent_id) ?? agent;
  const rows: [string, ReactNode][] = [
    [t("chat.detailAgent"), name === null ? t("chat.team") : agentLabel(name)],
    [t("chat.detailModel"), usage ? <code className="data">{usage.model}</code> : "–"],
    [t("chat.detailInput"), usage ? formatNumber(usage.input_tokens) : "–"],
    [t("chat.detailOutput"), usage ? formatNumber(usage.output_tokens) : formatNumber(item.message.tokens)],
    [t("chat.detailCost"), usage ? formatMoney(usage.cost_usd) : "–"],
    [t("chat.detailTime"), duration_ms === null || duration_ms === undefined ? "–" : formatDuration(duration_ms)],
    [t("chat.detailMemories"), formatNumber(context ?? 0)],
    [t("chat.detailAt"), formatDateTime(item.at)],
  ];
  return (
    <div className="stack">
      <dl className={styles.facts}>
        {rows.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {context && turnId ? <UsedMemories projectId={project.id} sessionId={conversation.id} turnId={turnId} /> : null}
    </div>
  );
}
