import type { AgentLoop } from "@/api/types";
import { Switch } from "@/ui/components";
import { useT } from "@/ui/hooks";
import { NumberField } from "./AgentModel";
import type { PartProps } from "./AgentProfile";
import styles from "./Agents.module.css";

export function LoopPhases({ agent, change }: PartProps) {
  const t = useT();
  const { loop } = agent;
  const set = (part: AgentLoop) => change({ loop: { ...loop, ...part } });
  return (
    <>
      <p className="muted">{t("agents.loopHint")}</p>
      {(["understand", "plan", "critique"] as const).map((phase) => (
        <Switch key={phase} label={t(`agents.${phase}`)} hint={t(`agents.${phase}Hint`)} checked={loop[phase] ?? false} onChange={(event) => set({ [phase]: event.target.checked })} />
      ))}
      <div className={styles.pair}>
        <NumberField label={t("agents.toolCalls")} value={loop.max_tool_calls ?? 0} min={0} max={1000} onChange={(max_tool_calls) => set({ max_tool_calls })} />
        {loop.critique && <NumberField label={t("agents.iterations")} value={loop.max_iterations ?? 1} min={1} max={20} onChange={(max_iterations) => set({ max_iterations })} />}
      </div>
    </>
  );
}
