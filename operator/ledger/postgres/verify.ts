import { encodeEvent } from '../../model/event.ts';
import { encodeStoredEvents, nextChain } from '../event-chain.ts';
import { damage, type Problems } from '../failures.ts';
import type { LedgerFailure, VerifyReport } from '../ledger.ts';
import type { StreamView } from './decode-rows.ts';
import { toLedgerFailure } from './failures.ts';
import { readRange } from './reading.ts';
import type { DaySegment } from './state.ts';

const MAX_ERRORS = 20;
const PAGE_EVENTS = 5_000;

/** Reads every event and calculates the chain anew. */
export async function verifyStream(
  view: StreamView,
  problems: Problems,
  signal?: AbortSignal,
): Promise<VerifyReport> {
  const { state, segments } = view.contents;
  const errors: string[] = [];
  const report = ({ cause, message }: LedgerFailure): void => {
    errors.push(message);
    // A day that could not be read just now is not damaged.
    if (cause === 'corrupt') problems.add(message);
  };
  let chain: string | undefined;
  let expected = state.lowWater + 1;
  for (const segment of segments) {
    const { firstSequence, lastSequence } = segment;
    await verifyDay(view, segment, signal).catch((error: unknown) => {
      signal?.throwIfAborted();
      report(toLedgerFailure('verifying', error));
    });
    if (firstSequence !== expected) {
      // What was missing may have been part of the chain.
      report(damage(`events ${expected} to ${firstSequence - 1}`, 'missing').failure);
    } else if (chain !== undefined && segment.firstChain !== chain) {
      report(damage(`event ${firstSequence}`, 'the chain does not continue').failure);
    }
    chain = segment.chain;
    expected = lastSequence + 1;
  }
  if (expected !== state.head + 1) {
    report(damage(`events ${expected} to ${state.head}`, 'missing').failure);
  } else if (chain !== undefined && chain !== state.chain) {
    report(damage('stream', 'its chain is not that of its newest event').failure);
  }
  return {
    ok: errors.length === 0,
    records: state.head - state.lowWater,
    segments: segments.length,
    firstSequence: Math.min(state.head, state.lowWater + 1),
    lastSequence: state.head,
    chain: state.chain,
    errors: errors.slice(0, MAX_ERRORS),
  };
}

/** Throws a LedgerReadError at the first event that is damaged or missing, or where the chain differs. */
async function verifyDay(
  view: StreamView,
  segment: DaySegment,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { day, firstSequence, lastSequence } = segment;
  const batches = await view.query({
    text: `select first_seq, last_seq, chain from meterfeed.batch
      where stream = $1 and day = $2 and last_seq <= $3 order by last_seq`,
    values: [view.contents.state.stream, day, lastSequence],
  });
  let chain = segment.firstChain;
  let expected = firstSequence;
  for (const batch of batches) {
    const last = Number(batch['last_seq']);
    const next = nextChain(chain);
    for (let first = expected; first <= last; first += PAGE_EVENTS) {
      signal?.throwIfAborted();
      const end = Math.min(last, first + PAGE_EVENTS - 1);
      const events = await readRange(view, segment, first, end);
      next.update(
        encodeStoredEvents(
          first,
          events.map(({ event }) => encodeEvent(event)),
        ).bytes,
      );
    }
    chain = next.digest('hex');
    if (chain !== batch['chain'] || Number(batch['first_seq']) !== expected) {
      throw damage(`events of ${day}`, `the chain differs at event ${last}`);
    }
    expected = last + 1;
  }
  if (expected !== lastSequence + 1 || chain !== segment.chain) {
    throw damage(`events of ${day}`, `the chain differs at event ${lastSequence}`);
  }
}
