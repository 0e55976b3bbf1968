import { useEffect, useRef } from "react";
import { useProject, useProjectState } from "@/ui/hooks";

/** Hear when an agent begins or ends its work; `onGap` is called when some of it may not have been heard. */
export function useStatusEvents(onStatus: (agentId: number, status: string) => unknown, onGap: () => void): void {
  const project = useProject();
  const { line } = useProjectState();
  const latest = useRef({ onStatus, onGap });
  const wasDown = useRef(false);
  useEffect(() => {
    latest.current = { onStatus, onGap };
  });
  useEffect(
    () => project.onEvent((event) => event.type === "agent_status_changed" && latest.current.onStatus(event.agent_id, event.new_status)),
    [project],
  );
  useEffect(() => {
    if (line === "open" && wasDown.current) latest.current.onGap();
    wasDown.current = line !== "open";
  }, [line]);
}
