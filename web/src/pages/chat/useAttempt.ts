import { useState } from "react";
import { Problem } from "@/api/problem";
import { problemText } from "@/i18n/problemText";
import { toast } from "@/state/toasts";

/** Return a function that runs an action and shows as a notice why it failed; and whether one runs. */
export function useAttempt(): { attempt: (action: () => Promise<unknown>) => void; isBusy: boolean } {
  const [running, setRunning] = useState(0);
  const run = async (action: () => Promise<unknown>) => {
    setRunning((before) => before + 1);
    try {
      await action();
    } catch (failure) {
      if (!(failure instanceof Problem)) throw failure;
      toast(problemText(failure), { kind: "error" });
    } finally {
      setRunning((before) => before - 1);
    }
  };
  return { attempt: (action) => void run(action), isBusy: running > 0 };
}
