import { readFileSync } from 'node:fs';
import { type Decimal, nanosFromDecimal, parseDecimal } from '../../operator/model/decimal.ts';

/** The fields of a received usage event that the long tests look at. */
export interface ReceivedEvent {
  readonly id: string;
  readonly tenant: string;
  readonly metric: string;
  readonly quantity: Decimal;
  readonly window_start: string;
  readonly window_end: string;
  readonly recorded_at: string;
  readonly dimensions?: Readonly<Record<string, string>>;
  readonly properties?: Readonly<Record<string, unknown>>;
}

/** The whole lines of a receiver's file; quantities as the digits that came. */
export function readReceived(file: string): readonly ReceivedEvent[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  return parseEvents(text);
}

/** The events of NDJSON; a last line cut short is left out. */
export function parseEvents(text: string): readonly ReceivedEvent[] {
  const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
  return lines.filter((line) => line !== '').map(parseLine);
}

function parseLine(line: string): ReceivedEvent {
  const digits = /"quantity":([0-9.]+)[,}]/.exec(line)?.[1];
  const quantity = digits === undefined ? undefined : parseDecimal(digits);
  if (quantity === undefined) throw new Error(`received: no plain decimal quantity: "${line}"`);
  return { ...(JSON.parse(line) as ReceivedEvent), quantity };
}

/** Ids that occur more than once. */
export function repeatedIds(events: readonly ReceivedEvent[]): readonly string[] {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  for (const { id } of events) {
    if (seen.has(id)) repeated.add(id);
    seen.add(id);
  }
  return [...repeated];
}

/** Starts of windows that lie between the first and the last received one and are not there. Throws when there are none at all. */
export function missingWindows(
  events: readonly ReceivedEvent[],
  sizeMs: number,
): readonly string[] {
  if (events.length === 0) throw new Error('received: no event to look for windows in');
  const starts = new Set(events.map(({ window_start }) => Date.parse(window_start)));
  const missing: string[] = [];
  for (let at = Math.min(...starts); at < Math.max(...starts); at += sizeMs) {
    if (!starts.has(at)) missing.push(new Date(at).toISOString());
  }
  return missing;
}

/** The exact sum of the quantities, in nano-units. */
export function sumNanos(events: readonly ReceivedEvent[]): bigint {
  return events.reduce((sum, { quantity }) => sum + nanosFromDecimal(quantity), 0n);
}
