import { signedFromNanos, nanosFromDecimal, parseSigned } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import { periodStart } from '../../model/periods.ts';
import type { UsageItem } from './usage-sums.ts';

/** The identity of a sum except tenant and time, in a fixed order. Absent values are null. */
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

/** A stored sum: identity, exact quantity, number of events. */
type StoredSum = readonly [identity: SumIdentity, quantity: string, events: number];

interface Sum {
  nanos: bigint;
  events: number;
}

/** The sums of one tenant in one period, by the JSON text of their identity. */
export class SumRows {
  readonly #sums = new Map<string, Sum>();

  /** One object with the sums of all; the inputs do not change. */
  static of(all: readonly SumRows[]): SumRows {
    const [only] = all;
    if (only !== undefined && all.length === 1) return only;
    const together = new SumRows();
    for (const rows of all) for (const [identity, sum] of rows.#sums) together.#add(identity, sum);
    return together;
  }

  get size(): number {
    return this.#sums.size;
  }

  addEvent(event: UsageEvent): void {
    this.#add(identityText(event), { nanos: nanosFromDecimal(event.quantity), events: 1 });
  }

  /**
   * Encodes these sums added to an encoded text, `[]` if there is none. These sums come first, then
   * the other stored ones. Throws when `stored` is invalid.
   */
  encodeAfter(stored: string): string {
    const rows: string[] = [];
    // Most windows have the same sums in the same order as the window before, so most of the text
    // need not be parsed.
    let at = 0;
    for (const [identity, { nanos, events }] of this.#sums) {
      const next = at + '[['.length;
      const behind = next + identity.length;
      // Fifteen times as fast as `startsWith`.
      if (stored.slice(next, behind) !== identity) break;
      const amounts = behind + ',"'.length;
      const quote = stored.indexOf('"', amounts);
      const end = stored.indexOf(']', quote);
      const before = nanosOf(stored.slice(amounts, quote));
      const eventsBefore = countOf(stored.slice(quote + '",'.length, end));
      rows.push(rowText(identity, { nanos: nanos + before, events: events + eventsBefore }));
      at = end + 1;
    }
    // The remainder begins with the bracket or comma before a row, or is the closing bracket.
    const isAll = at > 0 && rows.length === this.#sums.size && stored.endsWith(']]');
    if (isAll) return `[${rows.join(',')}${stored.slice(at)}`;
    const left = new SumRows();
    for (const [identity, sum] of [...this.#sums].slice(rows.length)) left.#add(identity, sum);
    left.#addEncoded(at > 0 && stored[at] === ']' ? '[]' : `[${stored.slice(at + 1)}`);
    for (const [identity, sum] of left.#sums) rows.push(rowText(identity, sum));
    return `[${rows.join(',')}]`;
  }

  #addEncoded(text: string): void {
    for (const [identity, quantity, events] of JSON.parse(text) as StoredSum[]) {
      this.#add(JSON.stringify(identity), { nanos: nanosOf(quantity), events });
    }
  }

  #add(identity: string, { nanos, events }: Sum): void {
    const sum = this.#sums.get(identity);
    if (sum === undefined) {
      this.#sums.set(identity, { nanos, events });
      return;
    }
    sum.nanos += nanos;
    sum.events += events;
  }
}

/** Decodes the sums of {@link SumRows}, as items that start with their period. */
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

/** The number of events in the encoded sums of {@link SumRows}. */
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

function rowText(identity: string, { nanos, events }: Readonly<Sum>): string {
  return `[${identity},"${signedFromNanos(nanos)}",${events}]`;
}

function countOf(events: string): number {
  const count = Number(events);
  if (Number.isSafeInteger(count) && count > 0) return count;
  throw new Error(`not a number of events: usage sums: "${events}"`);
}

function nanosOf(quantity: string): bigint {
  const decimal = parseSigned(quantity);
  if (decimal === undefined) throw new Error(`not a decimal: usage sums: "${quantity}"`);
  return nanosFromDecimal(decimal);
}
