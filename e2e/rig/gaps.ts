/** A stretch of time, milliseconds since the epoch. */
export interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** What GET /api/v1/gaps reports of one cause (docs/reference/openapi.yaml, GapGroup). */
export interface ReportedGap {
  readonly source: string;
  readonly reason: string;
  readonly scopes: readonly string[];
  readonly stretches: readonly { readonly from: string; readonly to: string }[];
}

/** What a gap has to concern to explain why something was not billed. */
export interface Explained {
  /** The scope of docs/explanation/gaps.md#unknown-is-not-zero: `pods`, `volumes`, … */
  readonly scope: string;
  readonly tenantCluster: string;
  /** Read from the metrics API, which has gaps of its own. */
  readonly isSampled: boolean;
}

/** Where a stretch is covered by gaps with a reason that concern something, each moment once. */
export function coveredBy(
  gaps: readonly ReportedGap[],
  { scope, tenantCluster, isSampled }: Explained,
  within: Stretch,
): readonly Stretch[] {
  const names = new Set(['*', scope, tenantCluster]);
  const concerning = gaps.filter(
    ({ source, reason, scopes }) =>
      reason !== '' &&
      source !== 'prometheus' &&
      (isSampled || source !== 'metrics') &&
      scopes.some((name) => names.has(name)),
  );
  const stretches = concerning.flatMap((gap) =>
    gap.stretches.map(({ from, to }) => ({ from: Date.parse(from), to: Date.parse(to) })),
  );
  return union(stretches.flatMap((stretch) => overlap(stretch, within) ?? []));
}

/** Milliseconds that stretches last together, which do not overlap. */
export function lasting(stretches: readonly Stretch[]): number {
  return stretches.reduce((sum, { from, to }) => sum + to - from, 0);
}

function overlap(a: Stretch, b: Stretch): Stretch | undefined {
  const [from, to] = [Math.max(a.from, b.from), Math.min(a.to, b.to)];
  return from < to ? { from, to } : undefined;
}

function union(stretches: readonly Stretch[]): readonly Stretch[] {
  const merged: Stretch[] = [];
  for (const next of stretches.toSorted((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last === undefined || next.from > last.to) merged.push(next);
    else merged[merged.length - 1] = { from: last.from, to: Math.max(last.to, next.to) };
  }
  return merged;
}
