import type { Findings } from './meter.ts';

/** GPU time on one node and of one model that was charged in a window, parts × milliseconds. */
export interface GpuUse {
  /** As GPU hours. */
  billed: bigint;
  /** As downtime. */
  downtime: bigint;
  /** To another tenant than the one that is billed the whole node. */
  overlap: bigint;
  /** Of closed windows, charged or credited late; in none of the others. */
  carried: bigint;
}

export interface NotedGpuUse {
  readonly node: string;
  readonly type: string;
  readonly kind: 'billed' | 'downtime' | 'overlap';
  readonly carried: boolean;
  readonly amount: bigint;
}

/** Notes what was charged, for the window report's balance. */
export function noteGpuUse(findings: Findings, noted: NotedGpuUse): void {
  const { node, type, kind, carried, amount } = noted;
  const use = gpuUse(findings, node, type);
  if (carried) use.carried += amount;
  else use[kind] += amount;
}

export function gpuUse({ gpuUses }: Findings, node: string, type: string): GpuUse {
  const byType = gpuUses.get(node) ?? new Map<string, GpuUse>();
  gpuUses.set(node, byType);
  const use = byType.get(type) ?? { billed: 0n, downtime: 0n, overlap: 0n, carried: 0n };
  byType.set(type, use);
  return use;
}
