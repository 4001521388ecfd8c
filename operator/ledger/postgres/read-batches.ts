import { FIRST_CHAIN } from '../event-chain.ts';
import type { LedgerBatch, StoredText } from '../ledger.ts';
import { reading, walkRange } from './reading.ts';
import type { StreamView } from './state.ts';

/** Batches that are read at a time. */
const PAGE_BATCHES = 5_000;

/** Implements `batches` of the ledger: the rows by pages, and the texts where they are wanted. */
export async function* readBatches(
  view: () => StreamView,
  sequence: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<LedgerBatch, void, void> {
  let previous = await reading(chainBefore(view(), sequence), signal);
  for (let next = sequence; ; ) {
    signal?.throwIfAborted();
    const { schema, query, contents } = view();
    const rows = await reading(
      query({
        text: `select first_seq, last_seq, chain, root from ${schema}.batch
          where last_seq >= $1 and last_seq <= $2 order by last_seq limit ${PAGE_BATCHES}`,
        values: [next, contents.state.head],
      }),
      signal,
    );
    for (const row of rows) {
      const [firstSequence, lastSequence] = [Number(row['first_seq']), Number(row['last_seq'])];
      const [chain, root] = [row['chain'] ?? '', row['root'] ?? undefined];
      const texts = () => readTexts(view(), firstSequence, lastSequence, signal);
      yield { firstSequence, lastSequence, previous, chain, root, texts };
      [previous, next] = [chain, lastSequence + 1];
    }
    if (rows.length < PAGE_BATCHES) return;
  }
}

/** The chain value before the batch with event `sequence`. */
async function chainBefore({ schema, query }: StreamView, sequence: number): Promise<string> {
  const [row] = await query({
    text: `select chain from ${schema}.batch where last_seq < $1 order by last_seq desc limit 1`,
    values: [sequence],
  });
  return row?.['chain'] ?? FIRST_CHAIN;
}

async function readTexts(
  view: StreamView,
  first: number,
  last: number,
  signal: AbortSignal | undefined,
): Promise<readonly StoredText[]> {
  const found: StoredText[] = [];
  for (const segment of view.contents.segments) {
    const from = Math.max(first, segment.firstSequence);
    const events = walkRange(() => view, segment, from, Math.min(last, segment.lastSequence));
    for (;;) {
      const next = await reading(events.next(), signal);
      if (next.done === true) break;
      const { sequence, event, text } = next.value;
      found.push({ sequence, tenant: event.tenant, text });
    }
  }
  return found;
}
