import type { ReceivedEvent } from '../long/received.ts';
import { type ExplainedObject, explain } from './explained.ts';

/** What an event carries out of windows that were closed before its own (docs/explanation/metering.md#late-facts), for whoever asks why. */
export interface LateFact {
  /** Added, or given back where it is below zero. */
  readonly carried_seconds: number;
  readonly metric: string;
  readonly tenant_cluster: string;
  /** The namespace inside of the tenant cluster, or the node; empty where the metric has neither. */
  readonly part: string;
  readonly window_start: string;
  readonly window_end: string;
  /** What is carried. */
  readonly objects: readonly Pick<ExplainedObject, 'kind' | 'name' | 'from' | 'to' | 'quantity'>[];
}

/** The events that carry anything. */
export function lateOf(events: readonly ReceivedEvent[]): readonly ReceivedEvent[] {
  return events.filter((event) => carriedBy(event) !== 0);
}

/** So many are named. */
const NAMED = 10;

/** Asks the operator at `address` what those carry that carry most, one after the other. */
export async function nameLate(
  late: readonly ReceivedEvent[],
  address: string,
): Promise<readonly LateFact[]> {
  const most = late.toSorted((a, b) => Math.abs(carriedBy(b)) - Math.abs(carriedBy(a)));
  const named: LateFact[] = [];
  for (const event of most.slice(0, NAMED)) named.push(await nameOne(event, address));
  return named;
}

async function nameOne(event: ReceivedEvent, address: string): Promise<LateFact> {
  const { id, metric, window_start, window_end, dimensions = {} } = event;
  const explained = await explain(address, id);
  const objects = typeof explained === 'string' ? [] : explained.objects;
  return {
    carried_seconds: carriedBy(event),
    metric,
    tenant_cluster: dimensions['tenant_cluster'] ?? '',
    part: dimensions['namespace'] ?? dimensions['node'] ?? '',
    window_start,
    window_end,
    objects: objects
      .filter(({ carried }) => carried === true)
      .map(({ kind, name, from, to, quantity }) => ({ kind, name, from, to, quantity })),
  };
}

function carriedBy({ properties }: ReceivedEvent): number {
  return Number(properties?.['carried_seconds'] ?? 0);
}
