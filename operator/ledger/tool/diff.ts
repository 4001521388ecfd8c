import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { type EventFilter, selectEvents } from './events.ts';

/** An event as a destination exports it: a usage event, or a CloudEvent that carries one. */
interface Exported {
  readonly quantity: number;
  times: number;
}

/**
 * Compares the ledger with what a destination says it has: a file with one JSON object per line. One
 * line of JSON per difference, then one with the counts. `missing`: in the ledger only; `unknown`: in
 * the file only; `repeated`: in the file more than once; `differs`: with another quantity.
 */
export async function* diffEvents(
  directory: string,
  file: string,
  filter: EventFilter,
): AsyncGenerator<string, void, void> {
  const exported = await readExport(file);
  const counts = { equal: 0, missing: 0, unknown: 0, repeated: 0, differs: 0 };
  for await (const { entry, event } of selectEvents(directory, filter)) {
    const found = exported.get(event.id);
    exported.delete(event.id);
    const difference = differenceOf(Number(event.quantity), found);
    counts[difference] += 1;
    if (difference === 'equal') continue;
    const { quantity: stored } = event;
    yield JSON.stringify({
      difference,
      sequence: entry.sequence,
      id: event.id,
      tenant: event.tenant,
      metric: event.metric,
      stored,
      exported: found?.quantity,
    });
  }
  for (const [id, { quantity }] of exported) {
    counts.unknown += 1;
    yield JSON.stringify({ difference: 'unknown', id, exported: quantity });
  }
  yield JSON.stringify(counts);
}

function differenceOf(
  quantity: number,
  found: Exported | undefined,
): 'equal' | 'missing' | 'repeated' | 'differs' {
  if (found === undefined) return 'missing';
  if (found.times > 1) return 'repeated';
  return found.quantity === quantity ? 'equal' : 'differs';
}

async function readExport(file: string): Promise<Map<string, Exported>> {
  const exported = new Map<string, Exported>();
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(file) })) {
    number += 1;
    if (line.trim() === '') continue;
    const { id, quantity } = parseLine(line, `${file}:${number}`);
    const found = exported.get(id);
    if (found === undefined) exported.set(id, { quantity, times: 1 });
    else found.times += 1;
  }
  return exported;
}

function parseLine(
  line: string,
  where: string,
): { readonly id: string; readonly quantity: number } {
  const parsed = JSON.parse(line) as { data?: unknown };
  const { id, quantity } = (parsed.data ?? parsed) as { id?: unknown; quantity?: unknown };
  if (typeof id === 'string' && typeof quantity === 'number') return { id, quantity };
  throw new Error(`diff: ${where}: not an event with id and quantity: "${line.slice(0, 120)}"`);
}
