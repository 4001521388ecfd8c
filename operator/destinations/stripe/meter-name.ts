import { createHash } from 'node:crypto';
import type { UsageEvent } from '../../model/event.ts';

/** Stripe's own bound of a meter's event name. */
const MAX_NAME = 100;
const HASH_DIGITS = 8;
const MAX_DISPLAY_NAME = 250;

/** Between a metric code and what its meter is split by (spec 1.4). */
const SEPARATOR = '__';

/**
 * The meter that an event belongs to: the metric's own, or the one of the values by which meters are
 * split, as far as the event has them (spec 1.4, design 7). A name that would be too long ends in the
 * hash of the whole, so that it is always the same one.
 */
export function meterName(event: UsageEvent, splitBy: readonly string[]): string {
  const name = [event.metric, ...splitValues(event, splitBy).map(normalized)].join(SEPARATOR);
  if (name.length <= MAX_NAME) return name;
  return `${name.slice(0, MAX_NAME - HASH_DIGITS - 1)}_${hash(name)}`;
}

/** What the dashboard shows: `GPU hours (H100-80GB)`. */
export function meterDisplayName(
  metricName: string,
  event: UsageEvent,
  splitBy: readonly string[],
): string {
  const values = splitValues(event, splitBy);
  const name = values.length === 0 ? metricName : `${metricName} (${values.join(', ')})`;
  return name.slice(0, MAX_DISPLAY_NAME);
}

/** Whether a meter counts a metric, alone or with others of its kind. */
export function isMeterOf(name: string, metric: string): boolean {
  return name === metric || name.startsWith(metric + SEPARATOR);
}

function splitValues(event: UsageEvent, splitBy: readonly string[]): readonly string[] {
  const { region, project, sku, resource_id } = event;
  const fields: Readonly<Record<string, string | undefined>> = {
    ...event.dimensions,
    region,
    project,
    sku,
    resource_id,
  };
  return splitBy.flatMap((field) => {
    const value = fields[field];
    return value === undefined || value === '' ? [] : [value];
  });
}

/** Lower case, everything else than letters and digits an underscore. */
function normalized(value: string): string {
  const text = value
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^_+|_+$/g, '');
  return text === '' ? hash(value) : text;
}

function hash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, HASH_DIGITS);
}
