import { hash } from 'node:crypto';
import { compareBytewise, sortedEntries } from './bytewise.ts';
import { decimalFromNanos, nanosFromDecimal } from './decimal.ts';
import { type EventIdentity, SCHEMA_VERSION, type UsageEvent } from './event.ts';

/** The prefix of ids of events that are sums of others. */
export const AGGREGATE_ID_PREFIX = 'agg1_';

/** 128 bits. */
const ID_HEX_DIGITS = 32;

/** Everything but the window that tells two charges apart, as text: what has it in common may be added up. */
export function seriesOf(event: UsageEvent): string {
  const { tenant, metric, unit, region, project, sku, resource_id, source, dimensions } = event;
  const named = [tenant, metric, unit, region, project, sku, resource_id, source];
  return JSON.stringify([...named.map((value) => value ?? ''), sortedEntries(dimensions ?? {})]);
}

/**
 * Adds up events of one series (docs/delivery.md#aggregation). A sum of one event is that event. The id of
 * any other is derived from the ids of its parts in their order, so that no other sum ever has it.
 */
export class RunningSum {
  readonly #first: UsageEvent;
  #count = 0;
  #digest = '';
  #nanos = 0n;
  #start: string;
  #end: string;
  #recordedAt: string;

  constructor(first: UsageEvent) {
    this.#first = first;
    this.#start = first.window_start;
    this.#end = first.window_end;
    this.#recordedAt = first.recorded_at;
    this.add(first);
  }

  add({ id, quantity, window_start: start, window_end: end, recorded_at: at }: UsageEvent): void {
    this.#count += 1;
    this.#digest = hash('sha256', `${this.#digest}\0${id}`, 'hex');
    this.#nanos += nanosFromDecimal(quantity);
    if (compareBytewise(start, this.#start) < 0) this.#start = start;
    if (compareBytewise(end, this.#end) > 0) this.#end = end;
    if (compareBytewise(at, this.#recordedAt) > 0) this.#recordedAt = at;
  }

  /** The sum as one event, from the beginning of its first window to the end of its last. */
  event(): UsageEvent {
    if (this.#count === 1) return this.#first;
    const { tenant, metric, unit, region, project, sku, resource_id, dimensions, source } =
      this.#first;
    const identity: EventIdentity = {
      tenant,
      metric,
      window_start: this.#start,
      window_end: this.#end,
      ...(region !== undefined && { region }),
      ...(project !== undefined && { project }),
      ...(sku !== undefined && { sku }),
      ...(resource_id !== undefined && { resource_id }),
      ...(dimensions !== undefined && { dimensions }),
    };
    return {
      schema_version: SCHEMA_VERSION,
      id: AGGREGATE_ID_PREFIX + this.#digest.slice(0, ID_HEX_DIGITS),
      ...identity,
      quantity: decimalFromNanos(this.#nanos),
      unit,
      recorded_at: this.#recordedAt,
      properties: { aggregated_events: this.#count },
      ...(source !== undefined && { source }),
    };
  }
}
