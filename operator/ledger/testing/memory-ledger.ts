import { compareBytewise } from '../../model/bytewise.ts';
import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import { BatchTree, chainValue, FIRST_CHAIN } from '../event-chain.ts';
import { type CursorMove, planCommit, planMove, planRetire } from '../cursor-moves.ts';
import { HeadWaiters } from '../head-waiters.ts';
import type {
  Cursor,
  EventOutcome,
  Ledger,
  LedgerBatch,
  RecordChange,
  StoredEvent,
  WriteOutcome,
} from '../ledger.ts';
import { sameCharge } from '../same-charge.ts';

const WRITTEN: WriteOutcome = { kind: 'written' };

/** A ledger in memory that never deletes anything, for tests. */
export function createMemoryLedger(): Ledger {
  return new MemoryLedger();
}

/** Public methods are bound: tests replace some of them by spreading the ledger. */
class MemoryLedger implements Ledger {
  readonly #events: UsageEvent[] = [];
  readonly #byId = new Map<string, UsageEvent>();
  readonly #records = new Map<string, string>();
  readonly #cursors = new Map<string, Cursor>();
  readonly #waiters = new HeadWaiters(0);
  #lastWindowEnd: number | undefined;
  #conflicts = 0;

  readonly append: Ledger['append'] = async (batch) => {
    const outcomes = batch.events.map((event) => this.#store(event));
    this.#change(batch.records);
    this.#lastWindowEnd = latest(this.#lastWindowEnd, batch.windowEnd);
    this.#waiters.advance(this.head());
    return { kind: 'appended', outcomes, head: this.head() };
  };

  readonly read: Ledger['read'] = async (afterSequence, limit) => {
    const events = this.#events
      .slice(afterSequence, afterSequence + limit)
      .map((event, offset) => ({ sequence: afterSequence + offset + 1, event }));
    return { kind: 'page', events, lastSequence: events.at(-1)?.sequence ?? afterSequence };
  };

  readonly scan: Ledger['scan'] = (from, to, signal) => this.#scan(from, to, signal);

  readonly batches: Ledger['batches'] = (sequence) => this.#batches(sequence);

  readonly find: Ledger['find'] = async (id) => this.#byId.get(id);

  readonly head = (): number => this.#events.length;

  readonly lowWater = (): number => 0;

  readonly changed: Ledger['changed'] = (afterSequence, signal) =>
    this.#waiters.wait(afterSequence, signal);

  readonly cursors: Ledger['cursors'] = () => [...this.#cursors.values()];

  readonly commitCursor: Ledger['commitCursor'] = async (
    destination,
    sequence,
    { from, records } = {},
  ) => {
    const current = this.#cursors.get(destination);
    const plan = planCommit(current, destination, sequence, this.head(), from);
    const outcome = this.#moveTo(plan);
    if (outcome.kind === 'written') this.#change(records);
    return outcome;
  };

  readonly moveCursor: Ledger['moveCursor'] = async (destination, sequence) =>
    this.#moveTo(planMove(destination, sequence, this.head()));

  readonly retireCursor: Ledger['retireCursor'] = async (destination, at) => {
    const cursor = planRetire(this.#cursors.get(destination), at);
    if (cursor !== undefined) this.#cursors.set(destination, cursor);
    return WRITTEN;
  };

  readonly dropCursor: Ledger['dropCursor'] = async (destination) => {
    this.#cursors.delete(destination);
    return WRITTEN;
  };

  readonly record: Ledger['record'] = async (key) => this.#records.get(key);

  readonly records: Ledger['records'] = (prefix) => this.#recordsFrom(prefix);

  readonly writeRecords: Ledger['writeRecords'] = async (changes) => {
    this.#change(changes);
    return WRITTEN;
  };

  readonly compareWith: Ledger['compareWith'] = async () => WRITTEN;

  readonly retain = async (): Promise<void> => undefined;

  readonly setRetention = (): void => undefined;

  readonly verify: Ledger['verify'] = async () => ({
    ok: true,
    records: this.head(),
    segments: 1,
    firstSequence: Math.min(1, this.head()),
    lastSequence: this.head(),
    chain: '',
    errors: [],
  });

  readonly stats: Ledger['stats'] = () => ({
    ledgerId: 'memory',
    sequence: this.head(),
    bytes: 0,
    segments: 1,
    chain: '',
    lastWindowEnd: this.#lastWindowEnd,
    conflicts: this.#conflicts,
    horizon: 0,
    problems: [],
    disk: { level: 'normal', usedRatio: 0, retentionShortened: false },
  });

  readonly close = async (): Promise<void> => this.#waiters.end(new Error('ledger: closed'));

  #store(event: UsageEvent): EventOutcome {
    const stored = this.#byId.get(event.id);
    if (stored === undefined) {
      this.#events.push(event);
      this.#byId.set(event.id, event);
      return 'accepted';
    }
    if (sameCharge(stored, event)) return 'duplicate';
    this.#conflicts += 1;
    return 'conflict';
  }

  #change(changes: readonly RecordChange[] = []): void {
    for (const { key, value } of changes) {
      if (value === undefined) this.#records.delete(key);
      else this.#records.set(key, value);
    }
  }

  #moveTo(plan: CursorMove): WriteOutcome {
    if (plan.kind === 'failed') return plan;
    if (plan.cursor !== undefined) {
      const { destination, sequence } = plan.cursor;
      const windowEnd = this.#events[sequence - 1]?.window_end;
      this.#cursors.set(destination, { ...plan.cursor, windowEnd });
    }
    return WRITTEN;
  }

  async *#scan(
    from: number,
    to: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<StoredEvent> {
    for (const [index, event] of this.#events.entries()) {
      signal?.throwIfAborted();
      const start = Date.parse(event.window_start);
      if (start >= from && start < to) yield { sequence: index + 1, event };
    }
  }

  /** Each event is a batch of its own. */
  async *#batches(from: number): AsyncGenerator<LedgerBatch> {
    let previous = FIRST_CHAIN;
    for (const [index, event] of this.#events.entries()) {
      const sequence = index + 1;
      const stored = { sequence, tenant: event.tenant, text: encodeEvent(event) };
      const tree = new BatchTree();
      tree.add(sequence, stored.tenant, stored.text);
      const root = tree.root();
      const chain = chainValue(previous, sequence, root);
      const numbers = { firstSequence: sequence, lastSequence: sequence };
      if (sequence >= from) {
        yield { ...numbers, previous, chain, root, texts: async () => [stored] };
      }
      previous = chain;
    }
  }

  async *#recordsFrom(prefix: string): AsyncGenerator<readonly [key: string, value: string]> {
    const keys = [...this.#records.keys()].filter((key) => key.startsWith(prefix));
    for (const key of keys.toSorted(compareBytewise)) {
      const value = this.#records.get(key);
      if (value !== undefined) yield [key, value];
    }
  }
}

function latest(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Math.max(a, b);
}
