import type { AppendBatch, EventOutcome, Ledger, StoredEvent } from '../../ledger.ts';

/** Returns an empty ledger, which is closed after the test. */
export type OpenEmpty = () => Promise<Ledger>;

/** Appends a batch that must succeed; returns the outcome of each event. */
export async function accept(ledger: Ledger, batch: AppendBatch): Promise<readonly EventOutcome[]> {
  const outcome = await ledger.append(batch);
  if (outcome.kind === 'failed') throw new Error(outcome.message);
  return outcome.outcomes;
}

/** A page that must be readable. */
export async function page(
  ledger: Ledger,
  after: number,
  limit: number,
): Promise<readonly StoredEvent[]> {
  const outcome = await ledger.read(after, limit);
  if (outcome.kind === 'failed') throw new Error(outcome.message);
  return outcome.events;
}

/** All records below a prefix. */
export function list(
  ledger: Ledger,
  prefix: string,
): Promise<readonly (readonly [key: string, value: string])[]> {
  return Array.fromAsync(ledger.records(prefix));
}
