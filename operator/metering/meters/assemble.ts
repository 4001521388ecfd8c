import { decimalFromNanos, divideHalfUp } from '../../model/decimal.ts';
import { deriveEventId } from '../../model/event-id.ts';
import { errorText } from '../../model/error-text.ts';
import { type EventProperty, SCHEMA_VERSION, type UsageEvent } from '../../model/event.ts';
import { eventProblem } from '../../model/validate-event.ts';
import { formatInstant, type Window } from '../../model/window.ts';
import { quantityOf } from './meters.ts';
import type { Settled } from './reversals.ts';

interface AssembleOptions {
  readonly window: Window;
  /** RFC 3339; not part of any identity. */
  readonly recordedAt: string;
  /** Closed late, after downtime or a failed source (docs/explanation/metering.md#restarts). */
  readonly backfilled: boolean;
}

export interface Assembled {
  readonly events: readonly UsageEvent[];
  /** The settled charge of each event, in the order of `events`. */
  readonly sources: readonly Settled[];
  /** Errors of charges that cannot become events, `what: where: "input"`; each of one tenant. */
  readonly refused: readonly string[];
}

/**
 * Builds the events of a window, one at a step: quantities are rounded once to nine decimals, and
 * zeros are left out (docs/reference/events.md#numbers).
 */
export function* assembleEvents(
  settled: Iterable<Settled>,
  options: AssembleOptions,
): Generator<void, Assembled> {
  const events: UsageEvent[] = [];
  const sources: Settled[] = [];
  const refused: string[] = [];
  const { start, end } = options.window;
  const bounds = { window_start: formatInstant(start), window_end: formatInstant(end) };
  for (const one of settled) {
    yield;
    const { metric, resource_id } = one.charge.identity;
    let event: UsageEvent | undefined;
    try {
      event = eventOf(one, bounds, options);
    } catch (error) {
      refused.push(`${errorText(error)}: ${metric} of "${resource_id}"`);
    }
    if (event === undefined) continue;
    const problem = eventProblem(event);
    if (problem === undefined) {
      events.push(event);
      sources.push(one);
    } else refused.push(`${problem}: ${metric} of "${resource_id}"`);
  }
  return { events, sources, refused };
}

function eventOf(
  settled: Settled,
  bounds: Pick<UsageEvent, 'window_start' | 'window_end'>,
  options: AssembleOptions,
): UsageEvent | undefined {
  const { charge, total } = settled;
  const { divisor, unit } = quantityOf(charge.identity.metric);
  const nanos = divideHalfUp(total, divisor);
  if (nanos <= 0n) return undefined;
  const { dimensions, ...identity } = charge.identity;
  const sorted = Object.entries(dimensions ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const complete = {
    ...identity,
    ...bounds,
    dimensions: Object.fromEntries(sorted),
  };
  const properties = propertiesOf(settled, options.backfilled);
  return {
    schema_version: SCHEMA_VERSION,
    id: deriveEventId(complete),
    quantity: decimalFromNanos(nanos),
    unit,
    recorded_at: options.recordedAt,
    source: 'collector',
    ...complete,
    ...(Object.keys(properties).length === 0 ? {} : { properties }),
  };
}

function propertiesOf(settled: Settled, backfilled: boolean): Record<string, EventProperty> {
  const { uncertainMs = 0 } = settled.charge;
  return {
    ...settled.charge.properties,
    ...(settled.carriedMs === 0 ? {} : { carried_seconds: settled.carriedMs / 1000 }),
    ...(uncertainMs === 0 ? {} : { uncertain_seconds: uncertainMs / 1000 }),
    ...(backfilled ? { backfilled: true } : {}),
  };
}
