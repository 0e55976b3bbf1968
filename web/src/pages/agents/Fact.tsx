import type { ReactNode } from "react";

export function Fact({ name, value }: { name: string; value: ReactNode }) {
  return (
    <div>
      <dt className="muted small">{name}</dt>
      <dd className="data">{value}</dd>
    </div>
  );
}
