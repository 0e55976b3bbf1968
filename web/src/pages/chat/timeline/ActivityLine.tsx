import { CircleAlert, CircleCheck, CircleDashed, Wrench } from "lucide-react";
import { memo } from "react";
import { t as translate, tOr } from "@/i18n";
import { formatTime } from "@/i18n/format";
import type { EntryOf, LiveCall } from "@/state/session/types";
import { visible } from "@/state/visible";
import { agentLabel } from "@/ui/agents";
import { Spinner, classes } from "@/ui/components";
import { useProjectState, useT } from "@/ui/hooks";
import { toolLabel } from "@/ui/tools";
import styles from "./Timeline.module.css";

type Call = EntryOf<"tool_call">;
const SUBJECTS = ["path", "pattern", "query", "text", "name"] as const;
const NAMED = 40;

/** Tool calls that follow each other in one line; unfolds to each call with its arguments, result and time. */
export const ActivityLine = memo(function ActivityLine({ calls, live }: { calls: readonly Call[]; live: readonly LiveCall[] }) {
  useT();
  const isRunning = live.some(({ returned }) => returned === null);
  const failed = calls.filter(({ tool_call: { status } }) => status === "failed" || status === "refused").length;
  return (
    <details className={styles.activity}>
      <summary className={styles.line}>
        {isRunning ? <Spinner /> : <Wrench aria-hidden="true" size={14} />}
        <span className="ellipsis data">{summaryOf(calls, live)}</span>
        {failed > 0 && <span className={styles.failed}>{translate("chat.callsFailed", { count: failed })}</span>}
      </summary>
      <ol role="list" className={styles.calls}>
        {calls.map((entry) => (
          <StoredCall key={entry.id} entry={entry} />
        ))}
        {live.map((call) => (
          <RunningCall key={call.key} call={call} />
        ))}
      </ol>
    </details>
  );
});

/** Return "Read 3 files · searched for TODO": what happened once is named, the rest is counted. */
function summaryOf(calls: readonly Call[], live: readonly LiveCall[]): string {
  const groups = new Map<string, string[]>();
  for (const { tool_call } of calls) groups.set(tool_call.tool, [...(groups.get(tool_call.tool) ?? []), subjectOf(tool_call.arguments)]);
  for (const { tool } of live) groups.set(tool, [...(groups.get(tool) ?? []), ""]);
  const words = [...groups].map(([tool, subjects]) => {
    const [only = ""] = subjects;
    const name = visible(toolLabel(tool));
    if (subjects.length === 1 && only !== "") return tOr(`chat.did_${tool}`, translate("chat.didOther", { tool: name, what: only }), { what: only });
    const count = subjects.length;
    return tOr(`chat.didMany_${tool}`, count === 1 ? name : translate("chat.didOtherMany", { tool: name, count }), { count });
  });
  return words.join(" · ");
}

export function subjectOf(given: Readonly<Record<string, unknown>>): string {
  for (const name of SUBJECTS) {
    const value = given[name];
    if (typeof value === "string" && value !== "") return value === "." ? translate("chat.theFolder") : shortened(visible(value));
  }
  return "";
}

function shortened(text: string): string {
  return text.length > NAMED ? `${text.slice(0, NAMED)}…` : text;
}

function StoredCall({ entry: { at, tool_call } }: { entry: Call }) {
  const t = useT();
  const { status, error } = tool_call;
  const isGood = status === "done" || status === "unchanged";
  return (
    <li className={styles.call}>
      <div className={styles.callHead}>
        {isGood ? <CircleCheck aria-hidden="true" size={14} /> : <CircleAlert aria-hidden="true" size={14} className={styles.failed} />}
        <span title={visible(tool_call.tool)}>{visible(toolLabel(tool_call.tool))}</span>
        <span>{agentLabel(tool_call.agent)}</span>
        <span className={classes(styles.faint, !isGood && styles.failed)}>{tOr(`chat.call_${status}`, status)}</span>
        <time className={styles.faint} dateTime={at}>
          {formatTime(at)}
        </time>
      </div>
      <Given values={tool_call.arguments} />
      {tool_call.result !== null && <Result result={tool_call.result} />}
      {error !== null && (
        <p className={classes(styles.callError, "data")}>
          {t("chat.callError")}: {visible(error, "\n")}
        </p>
      )}
    </li>
  );
}

function Given({ values }: { values: Readonly<Record<string, unknown>> }) {
  const given = Object.entries(values);
  if (!given.length) return null;
  return (
    <dl className={styles.given}>
      {given.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd className="data">{visible(typeof value === "string" ? value : JSON.stringify(value), "\n\t")}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The beginning of what a call returned, folded to its first line. */
function Result({ result: { text, is_cut, count, exit_code: code } }: { result: NonNullable<Call["tool_call"]["result"]> }) {
  const t = useT();
  const shown = visible(text, "\n\t");
  const [first = ""] = shown.split("\n", 1);
  const facts = [t("chat.result"), count === null ? null : t("chat.resultCount", { count }), code === null ? null : t("chat.exitCode", { code })];
  return (
    <details className={styles.result}>
      <summary>
        <span className="ellipsis data">
          <span className={styles.faint}>{facts.filter(Boolean).join(" · ")}</span> {first}
        </span>
      </summary>
      <pre className="data" tabIndex={0} aria-label={t("chat.result")}>
        {shown}
        {is_cut && "\n…"}
      </pre>
    </details>
  );
}

function RunningCall({ call }: { call: LiveCall }) {
  const t = useT();
  const { project } = useProjectState();
  const agent = project?.agents.find(({ id }) => id === call.agentId)?.name ?? "";
  return (
    <li className={styles.call}>
      <div className={styles.callHead}>
        {call.returned === null ? <CircleDashed aria-hidden="true" size={14} /> : <CircleCheck aria-hidden="true" size={14} />}
        <span title={visible(call.tool)}>{visible(toolLabel(call.tool))}</span>
        <span>{agentLabel(agent)}</span>
        <span className={styles.faint}>{call.returned === null ? t("chat.call_running") : t(call.success ? "chat.call_done" : "chat.call_failed")}</span>
      </div>
      {call.error && <p className={classes(styles.callError, "data")}>{visible(call.error, "\n")}</p>}
    </li>
  );
}
