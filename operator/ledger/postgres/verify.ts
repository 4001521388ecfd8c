import { FIRST_CHAIN } from '../event-chain.ts';
import { damage, type Problems } from '../failures.ts';
import type { LedgerFailure, LedgerReadError, VerifyReport } from '../ledger.ts';
import { chainBatch } from '../batch-chain.ts';
import { toLedgerFailure } from './failures.ts';
import { walkRange } from './reading.ts';
import type { Segment, StreamView } from './state.ts';

const MAX_ERRORS = 20;
const PAGE_BATCHES = 5_000;

/** Verifies a stream: reads every event and compares the chain of each batch. */
export async function verifyStream(
  view: StreamView,
  problems?: Pick<Problems, 'add'>,
  signal?: AbortSignal,
): Promise<VerifyReport> {
  const { state, segments } = view.contents;
  const errors: string[] = [];
  const report = ({ cause, message }: LedgerFailure): void => {
    errors.push(message);
    // A segment that is temporarily unreadable is not damaged.
    if (cause === 'corrupt') problems?.add(message);
  };
  const walk = new ChainWalk(view);
  let expected = state.lowWater + 1;
  for (const segment of segments) {
    const { firstSequence, lastSequence } = segment;
    if (firstSequence !== expected) {
      report(damage(`events ${expected} to ${firstSequence - 1}`, 'missing').failure);
      // The missing events may have been part of the chain.
      walk.forget();
    }
    await walk.segment(segment, signal).catch((error: unknown) => {
      signal?.throwIfAborted();
      report(toLedgerFailure('verifying', error));
      walk.forget();
    });
    expected = lastSequence + 1;
  }
  if (expected !== state.head + 1) {
    report(damage(`events ${expected} to ${state.head}`, 'missing').failure);
  } else if (walk.chain() !== undefined && walk.chain() !== state.chain) {
    report(damage('stream', 'its chain differs from that of its newest event').failure);
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

/** Recalculates the chain from batch to batch. */
class ChainWalk {
  readonly #view: StreamView;
  #chain: string | undefined;

  constructor(view: StreamView) {
    this.#view = view;
  }

  /** The chain value after the last batch; undefined while unknown. */
  chain(): string | undefined {
    return this.#chain;
  }

  /** Lets the next batch continue any chain. */
  forget(): void {
    this.#chain = undefined;
  }

  /**
   * Verifies a segment. Throws a LedgerReadError at the first event that is damaged or missing, or
   * at which the chain differs.
   */
  async segment(segment: Segment, signal: AbortSignal | undefined): Promise<void> {
    const { firstSequence, lastSequence, week } = segment;
    const { linkedFrom } = this.#view.contents.state;
    let chain = this.#chain ?? (await this.#chainBefore(segment));
    let expected = firstSequence;
    while (expected <= lastSequence) {
      const batches = await this.#batches(expected, lastSequence);
      if (batches.length === 0) throw differs(week, lastSequence);
      for (const { first, last, chain: stored, root } of batches) {
        if (first !== expected) throw differs(week, last);
        const batch = chainBatch(chain, first, linkedFrom);
        for await (const event of walkRange(() => this.#view, segment, first, last, signal)) {
          batch.add(event.sequence, event.event.tenant, event.text);
        }
        const end = batch.end();
        chain = end.chain;
        if (chain !== stored || end.root !== root) throw differs(week, last);
        expected = last + 1;
      }
    }
    this.#chain = chain;
  }

  /**
   * Chain value before a segment's first batch. Deletion keeps one batch before the oldest event.
   */
  async #chainBefore({ firstSequence, week }: Segment): Promise<string> {
    if (firstSequence === 1) return FIRST_CHAIN;
    const [before] = await this.#batches(firstSequence - 1, firstSequence - 1);
    if (before === undefined) throw differs(week, firstSequence);
    return before.chain;
  }

  async #batches(
    from: number,
    to: number,
  ): Promise<
    readonly {
      readonly first: number;
      readonly last: number;
      readonly chain: string;
      readonly root: string | undefined;
    }[]
  > {
    const { schema, query } = this.#view;
    const rows = await query({
      text: `select first_seq, last_seq, chain, root from ${schema}.batch
        where last_seq >= $1 and last_seq <= $2 order by last_seq limit ${PAGE_BATCHES}`,
      values: [from, to],
    });
    return rows.map((row) => ({
      first: Number(row['first_seq']),
      last: Number(row['last_seq']),
      chain: row['chain'] ?? '',
      root: row['root'] ?? undefined,
    }));
  }
}

function differs(week: string, sequence: number): LedgerReadError {
  return damage(`events of ${week}`, `the chain differs at event ${sequence}`);
}
