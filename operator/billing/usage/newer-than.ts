import { type Ledger, LedgerReadError, type StoredEvent } from '../../ledger/ledger.ts';

const PAGE_EVENTS = 2000;

/** The events after a sequence number, up to the head at the time it is reached. */
export async function* newerThan(
  ledger: Ledger,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<StoredEvent> {
  for await (const events of pagesNewerThan(ledger, after, signal)) yield* events;
}

/** As {@link newerThan}, by pages. */
export async function* pagesNewerThan(
  ledger: Ledger,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<readonly StoredEvent[]> {
  for (let position = after; ; ) {
    signal.throwIfAborted();
    const page = await ledger.read(position, PAGE_EVENTS);
    if (page.kind === 'failed') throw new LedgerReadError(page);
    if (page.events.length === 0) return;
    yield page.events;
    position = page.lastSequence;
  }
}
