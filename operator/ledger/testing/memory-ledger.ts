import { compareBytewise } from '../../model/bytewise.ts';
import type { UsageEvent } from '../../model/event.ts';
import { planCommit, planMove, planRetire } from '../cursor-moves.ts';
import { createHeadWaiters } from '../head-waiters.ts';
import type {
  Cursor,
  EventOutcome,
  Ledger,
  RecordChange,
  StoredEvent,
  WriteOutcome,
} from '../ledger.ts';
import { sameCharge } from '../same-charge.ts';

const WRITTEN: WriteOutcome = { kind: 'written' };

/** A ledger that forgets everything at exit and deletes nothing before: for tests. */
export function createMemoryLedger(): Ledger {
  const events: UsageEvent[] = [];
  const byId = new Map<string, UsageEvent>();
  const records = new Map<string, string>();
  const cursors = new Map<string, Cursor>();
  const waiters = createHeadWaiters(0);
  let lastWindowEnd: number | undefined;
  let conflicts = 0;

  const store = (event: UsageEvent): EventOutcome => {
    const stored = byId.get(event.id);
    if (stored === undefined) {
      events.push(event);
      byId.set(event.id, event);
      return 'accepted';
    }
    if (sameCharge(stored, event)) return 'duplicate';
    conflicts += 1;
    return 'conflict';
  };
  const change = ({ key, value }: RecordChange): void => {
    if (value === undefined) records.delete(key);
    else records.set(key, value);
  };
  const setCursor = (cursor: Cursor): void => {
    const windowEnd = events[cursor.sequence - 1]?.window_end;
    cursors.set(cursor.destination, { ...cursor, ...(windowEnd !== undefined && { windowEnd }) });
  };
  const stored = (index: number): StoredEvent[] => {
    const event = events[index];
    return event === undefined ? [] : [{ sequence: index + 1, event }];
  };

  return {
    async append(batch) {
      const outcomes = batch.events.map(store);
      for (const entry of batch.records ?? []) change(entry);
      lastWindowEnd = latest(lastWindowEnd, batch.windowEnd);
      waiters.advance(events.length);
      return { kind: 'appended', outcomes, head: events.length };
    },
    async read(afterSequence, limit) {
      const page = events
        .slice(afterSequence, afterSequence + limit)
        .flatMap((_, offset) => stored(afterSequence + offset));
      return { kind: 'page', events: page, lastSequence: page.at(-1)?.sequence ?? afterSequence };
    },
    async *scan(from, to, signal) {
      for (const [index, event] of events.entries()) {
        signal?.throwIfAborted();
        const start = Date.parse(event.window_start);
        if (start >= from && start < to) yield { sequence: index + 1, event };
      }
    },
    find: async (id) => byId.get(id),
    head: () => events.length,
    lowWater: () => 0,
    changed: (afterSequence, signal) => waiters.wait(afterSequence, signal),

    cursors: () => [...cursors.values()],
    async commitCursor(destination, sequence, { from, records: changes = [] } = {}) {
      const plan = planCommit(cursors.get(destination), destination, sequence, events.length, from);
      if (plan.kind === 'failed') return plan;
      if (plan.cursor !== undefined) setCursor(plan.cursor);
      for (const entry of changes) change(entry);
      return WRITTEN;
    },
    async moveCursor(destination, sequence) {
      const plan = planMove(destination, sequence, events.length);
      if (plan.kind === 'failed') return plan;
      if (plan.cursor !== undefined) setCursor(plan.cursor);
      return WRITTEN;
    },
    async retireCursor(destination, at) {
      const cursor = planRetire(cursors.get(destination), at);
      if (cursor !== undefined) cursors.set(destination, cursor);
      return WRITTEN;
    },
    async dropCursor(destination) {
      cursors.delete(destination);
      return WRITTEN;
    },

    record: async (key) => records.get(key),
    async *records(prefix) {
      const keys = [...records.keys()].filter((key) => key.startsWith(prefix));
      for (const key of keys.toSorted(compareBytewise)) {
        const value = records.get(key);
        if (value !== undefined) yield [key, value];
      }
    },
    async writeRecords(changes) {
      for (const entry of changes) change(entry);
      return WRITTEN;
    },

    retain: async () => undefined,
    setRetention: () => undefined,
    verify: async () => ({
      ok: true,
      records: events.length,
      segments: 1,
      firstSequence: Math.min(1, events.length),
      lastSequence: events.length,
      chain: '',
      errors: [],
    }),
    stats: () => ({
      ledgerId: 'memory',
      sequence: events.length,
      bytes: 0,
      segments: 1,
      chain: '',
      ...(lastWindowEnd !== undefined && { lastWindowEnd }),
      conflicts,
      horizon: 0,
      problems: [],
      disk: { level: 'normal', usedRatio: 0, retentionShortened: false },
    }),
    close: async () => waiters.end(new Error('ledger: closed')),
  };
}

function latest(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Math.max(a, b);
}
