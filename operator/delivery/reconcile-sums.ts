import type { Ledger } from '../ledger/ledger.ts';
import { nanosFromDecimal } from '../model/decimal.ts';
import type { UsageEvent } from '../model/event.ts';
import type { Acknowledgements } from './acknowledgements.ts';
import type { DeadLetterIndex } from './dead-letters.ts';
import type { DeliveryRecords } from './delivery-records.ts';
import { createSequenceSet } from './sequence-set.ts';
import { isWithheld } from './withheld.ts';

export interface ReconcileQuery {
  /** Whole UTC days `[from, to)`, milliseconds since the epoch, by window start. */
  readonly from: number;
  readonly to: number;
  /** Only this tenant. */
  readonly tenant?: string;
  /** Only pairs of tenant and metric that an event passes for; their sums are of all their events. */
  readonly selects?: (event: UsageEvent) => boolean;
  /** Rows that the destination may be asked after; 500 unless told otherwise. */
  readonly questions?: number;
  /** Where among the rows the questions begin, as a share of them; 0 unless told otherwise. */
  readonly beginAt?: number;
}

export interface SumOptions {
  readonly ledger: Ledger;
  readonly records: DeliveryRecords;
  readonly deadLetters: Pick<DeadLetterIndex, 'has'>;
  readonly acknowledgements: Pick<Acknowledgements, 'has'>;
  readonly wants: (event: UsageEvent) => boolean;
  readonly cursor: () => number;
}

/** Where an event stands that the destination wants. */
export type Part = 'delivered' | 'pending' | 'deadLetters' | 'parked' | 'withheld';

/** One tenant's sums of one metric, in nano-units, by where its events stand. */
export type Sums = { readonly tenant: string; readonly metric: string } & Record<Part, bigint> & {
    /** Of those not pending, what the destination acknowledged. */
    acknowledged: bigint;
  };

/** Tells the rows of one destination apart. */
export function keyOf({ tenant, metric }: Pick<UsageEvent, 'tenant' | 'metric'>): string {
  return `${tenant}\0${metric}`;
}

/** The ledger's sums of a range, for each pair of tenant and metric that the query selects. */
export async function sumLedger(
  options: SumOptions,
  { from, to, tenant, selects }: ReconcileQuery,
  signal: AbortSignal,
): Promise<readonly Sums[]> {
  const parked = createSequenceSet();
  for await (const { sequence } of options.records.parked()) parked.add(sequence);
  const withheld = await options.records.withheld();
  // Read once: what is delivered meanwhile still counts as pending.
  const cursor = options.cursor();
  const partOf = (sequence: number): Part => {
    if (sequence > cursor) return 'pending';
    if (options.deadLetters.has(sequence)) return 'deadLetters';
    if (parked.has(sequence)) return 'parked';
    return isWithheld(withheld, sequence) ? 'withheld' : 'delivered';
  };
  const sums = new Map<string, Sums>();
  const selected = new Set<string>();
  for await (const { sequence, event } of options.ledger.scan(from, to, signal)) {
    if (tenant !== undefined && event.tenant !== tenant) continue;
    if (!options.wants(event)) continue;
    const key = keyOf(event);
    const sum = sums.get(key) ?? emptySums(event);
    const part = partOf(sequence);
    const quantity = nanosFromDecimal(event.quantity);
    sum[part] += quantity;
    if (part !== 'pending' && options.acknowledgements.has(sequence)) sum.acknowledged += quantity;
    sums.set(key, sum);
    if (selects?.(event) ?? true) selected.add(key);
  }
  return [...sums].filter(([key]) => selected.has(key)).map(([, sum]) => sum);
}

function emptySums({ tenant, metric }: UsageEvent): Sums {
  const parts = { delivered: 0n, pending: 0n, deadLetters: 0n, parked: 0n, withheld: 0n };
  return { tenant, metric, ...parts, acknowledged: 0n };
}
