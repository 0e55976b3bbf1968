import { Component, type ReactNode } from "react";
import { t } from "@/i18n";
import { Button } from "./Button";
import { EmptyState } from "./EmptyState";

/** Shows a page for a mistake of ours instead of nothing. A new `resetKey` tries again. */
export class ErrorBoundary extends Component<{ children: ReactNode; resetKey: string }, { error: unknown; resetKey: string }> {
  override state = { error: null as unknown, resetKey: this.props.resetKey };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  static getDerivedStateFromProps({ resetKey }: { resetKey: string }, state: { error: unknown; resetKey: string }) {
    return resetKey === state.resetKey ? null : { error: null, resetKey };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <div role="alert">
        <EmptyState title={t("errors.crashed")} text={t("errors.crashedDetail")}>
          <Button kind="primary" onClick={() => location.reload()}>
            {t("errors.reload")}
          </Button>
        </EmptyState>
      </div>
    );
  }
}
