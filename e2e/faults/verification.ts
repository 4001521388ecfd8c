import { encodeEvent, type UsageEvent } from '../../operator/model/event.ts';
import { type DestinationName, faultDestination } from './destinations.ts';
import type { LedgerEnd } from './subject/messages.ts';
import type { Billed } from './vendors/stand-in.ts';

/** What one run came to. All zero and empty: every promise held. */
export interface Verification {
  /** Acknowledged events that a destination does not have. */
  readonly lost: number;
  /** Events that a destination would bill twice. */
  readonly duplicated: number;
  /** Events whose content differs from what was acknowledged, or that nobody sent, without a report. */
  readonly undetectedCorruption: number;
  /** Units that are on no invoice, or on two, of which nothing tells. */
  readonly invoiceMismatch: number;
  /** Whatever else must not happen. */
  readonly wrong: readonly string[];
}

/** What a destination would bill for. */
export interface Bill {
  readonly name: DestinationName;
  readonly billed: readonly Billed[];
  /** Repeats that it recognised. */
  readonly repeats: number;
}

export interface Evidence {
  /** Every acknowledged event, by id. */
  readonly acknowledged: ReadonlyMap<string, UsageEvent>;
  /** Every event that was ever offered, by id. */
  readonly offered: ReadonlyMap<string, UsageEvent>;
  readonly ledger: LedgerEnd | undefined;
  /** Whether each tenant's events must have come in the ledger's order. */
  readonly inOrder: boolean;
  readonly bills: readonly Bill[];
}

/** Holds what the ledger and the destinations have in the end against what was acknowledged. */
export function verify(evidence: Evidence): Verification {
  const { acknowledged, offered, ledger, bills, inOrder } = evidence;
  const wrong: string[] = [];
  let lost = 0;
  let duplicated = 0;
  let undetectedCorruption = 0;

  const sequences = new Map<string, number>();
  let previous: number | undefined;
  for (const [sequence, id, content] of ledger?.events ?? []) {
    if (sequences.has(id)) {
      duplicated += 1;
      wrong.push(`${id} is in the ledger twice`);
    }
    if (previous !== undefined && sequence !== previous + 1) {
      wrong.push(`the ledger goes from ${previous} to ${sequence}`);
    }
    const event = offered.get(id);
    if (event === undefined || encodeEvent(event) !== content) undetectedCorruption += 1;
    sequences.set(id, sequence);
    previous = sequence;
  }

  for (const { name, billed } of bills) {
    const { contentOf, laneOf = tenantOf } = faultDestination(name);
    const seen = new Set<string>();
    for (const { id, content } of billed) {
      if (seen.has(id)) duplicated += 1;
      seen.add(id);
      const event = offered.get(id);
      if (event === undefined || contentOf(event) !== content) undetectedCorruption += 1;
    }
    for (const id of acknowledged.keys()) if (!seen.has(id)) lost += 1;
    const out = inOrder ? outOfOrder(billed, offered, sequences, laneOf) : undefined;
    if (out !== undefined) wrong.push(`${name}: ${out}`);
  }
  return { lost, duplicated, undetectedCorruption, invoiceMismatch: 0, wrong };
}

function tenantOf({ tenant }: UsageEvent): string {
  return tenant;
}

/** The first event that came before an older one of its lane. */
function outOfOrder(
  billed: readonly Billed[],
  offered: ReadonlyMap<string, UsageEvent>,
  sequences: ReadonlyMap<string, number>,
  laneOf: (event: UsageEvent) => string,
): string | undefined {
  const newest = new Map<string, number>();
  for (const { id } of billed) {
    const sequence = sequences.get(id);
    const event = offered.get(id);
    if (sequence === undefined || event === undefined) continue;
    const lane = laneOf(event);
    const before = newest.get(lane) ?? 0;
    if (sequence < before) return `${id} (${sequence}) of ${lane} came after ${before}`;
    newest.set(lane, sequence);
  }
  return undefined;
}
