import { signedFromNanos, nanosFromDecimal, parseSigned } from '../model/decimal.ts';
import type { UsageEvent } from '../model/event.ts';
import { periodStart } from '../model/periods.ts';
import type { UsageItem } from './usage-sums.ts';

/** The identity of a sum but for tenant and time, in a fixed order; absent values are null. */
type SumIdentity = readonly [
  metric: string,
  unit: string,
  region: string | null,
  project: string | null,
  sku: string | null,
  resourceId: string | null,
  source: string | null,
  dimensions: Readonly<Record<string, string>> | null,
];

/** One sum as it is stored: identity, exact quantity, number of events. */
type StoredSum = readonly [identity: SumIdentity, quantity: string, events: number];

interface Sum {
  nanos: bigint;
  events: number;
}

/** The sums of one tenant in one period, by the JSON text of their identity. */
export class SumRows {
  readonly #sums = new Map<string, Sum>();

  /** How many sums there are. */
  get size(): number {
    return this.#sums.size;
  }

  addEvent(event: UsageEvent): void {
    this.#add(identityText(event), nanosFromDecimal(event.quantity), 1);
  }

  addRows(other: SumRows): void {
    for (const [identity, { nanos, events }] of other.#sums) this.#add(identity, nanos, events);
  }

  /** Adds what {@link encode} wrote. Throws when it is not that. */
  addEncoded(text: string): void {
    for (const [identity, quantity, events] of JSON.parse(text) as StoredSum[]) {
      this.#add(JSON.stringify(identity), nanosOf(quantity), events);
    }
  }

  encode(): string {
    const rows = [...this.#sums].map(
      ([identity, { nanos, events }]) => `[${identity},"${signedFromNanos(nanos)}",${events}]`,
    );
    return `[${rows.join(',')}]`;
  }

  #add(identity: string, nanos: bigint, events: number): void {
    const sum = this.#sums.get(identity);
    if (sum === undefined) {
      this.#sums.set(identity, { nanos, events });
      return;
    }
    sum.nanos += nanos;
    sum.events += events;
  }
}

/** The sums that {@link SumRows} encoded, as items that start with their period. */
export function* decodeSums(
  tenant: string,
  period: string,
  text: string,
): Generator<{ readonly item: UsageItem; readonly events: number }> {
  const start = periodStart(period);
  for (const [identity, quantity, events] of JSON.parse(text) as StoredSum[]) {
    const [metric, unit, region, project, sku, resourceId, source, dimensions] = identity;
    const item: UsageItem = {
      tenant,
      metric,
      unit,
      quantity: signedFromNanos(nanosOf(quantity)),
      window_start: start,
      ...(region !== null && { region }),
      ...(project !== null && { project }),
      ...(sku !== null && { sku }),
      ...(resourceId !== null && { resource_id: resourceId }),
      ...(source !== null && { source }),
      ...(dimensions !== null && { dimensions }),
    };
    yield { item, events };
  }
}

/** Of how many events the sums are that {@link SumRows} encoded. */
export function countEvents(text: string): number {
  return (JSON.parse(text) as StoredSum[]).reduce((total, [, , events]) => total + events, 0);
}

function identityText(event: UsageEvent): string {
  const identity: SumIdentity = [
    event.metric,
    event.unit,
    event.region ?? null,
    event.project ?? null,
    event.sku ?? null,
    event.resource_id ?? null,
    event.source ?? null,
    event.dimensions ?? null,
  ];
  return JSON.stringify(identity);
}

function nanosOf(quantity: string): bigint {
  const decimal = parseSigned(quantity);
  if (decimal === undefined) throw new Error(`not a decimal: usage sums: "${quantity}"`);
  return nanosFromDecimal(decimal);
}
