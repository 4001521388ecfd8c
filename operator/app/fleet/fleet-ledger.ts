import { ledgerFailure } from '../../ledger/failures.ts';
import type { Ledger, LedgerFailure, LedgerStats, StoredEvent } from '../../ledger/ledger.ts';
import { eventsIn } from '../../billing/usage/events-in.ts';
import type { EventsQuery } from '../../billing/usage/tenant-events.ts';
import { LateUsage, type SummedUsage } from '../../billing/usage/late-usage.ts';
import type { TotalsOutcome, UsageTotals } from '../../billing/usage/usage-totals.ts';
import type { ServedStream } from '../../http/server.ts';
import type { Summands, UsageItem } from '../../billing/usage/usage-sums.ts';

type SummedStream = Pick<ServedStream, 'source' | 'ledger' | 'totals'>;

/** Dimension with the CLUSTER_NAME of an item's stream, which separates the sums of a fleet. */
export const CLUSTER_KEY = 'cluster';

const OF_ONE_STREAM: LedgerFailure = ledgerFailure(
  'invalid',
  'cluster: this is about one stream: name one',
);

/**
 * Returns all streams as one read-only ledger. Reads return the streams one after the other, and
 * numbers are sums. Operations on a single stream fail.
 */
export function createFleetLedger(streams: () => readonly SummedStream[]): Ledger {
  const refuse = async (): Promise<LedgerFailure> => OF_ONE_STREAM;
  const sum = (value: (ledger: Ledger) => number): number =>
    streams().reduce((total, { ledger }) => total + value(ledger), 0);
  return {
    append: refuse,
    read: refuse,
    scan: (from, to, signal) => scanAll(streams(), from, to, signal),
    batches: () => {
      throw new Error(OF_ONE_STREAM.message);
    },
    find: async (id) => {
      for (const { ledger } of streams()) {
        const event = await ledger.find(id);
        if (event !== undefined) return event;
      }
      return undefined;
    },
    head: () => sum((ledger) => ledger.head()),
    lowWater: () => sum((ledger) => ledger.lowWater()),
    changed: async (after, signal) => {
      const ended = new AbortController();
      const both = AbortSignal.any([signal, ended.signal]);
      const total = sum((ledger) => ledger.head());
      if (total > after) return;
      try {
        await Promise.race(streams().map(({ ledger }) => ledger.changed(ledger.head(), both)));
      } finally {
        ended.abort();
      }
    },
    cursors: () => [],
    commitCursor: refuse,
    moveCursor: refuse,
    retireCursor: refuse,
    dropCursor: refuse,
    record: async () => undefined,
    records: (prefix) => recordsOfAll(streams(), prefix),
    writeRecords: refuse,
    compareWith: refuse,
    retain: async () => undefined,
    setRetention: () => undefined,
    verify: () => Promise.reject(new Error(OF_ONE_STREAM.message)),
    stats: () => statsOf(streams().map(({ ledger }) => ledger.stats())),
    close: async () => undefined,
  };
}

/** The sums of all streams as one. */
export function createFleetTotals(streams: () => readonly SummedStream[]): UsageTotals {
  return {
    addTo: async (sums, query) => {
      let partial = false;
      let head = 0;
      let summedUpTo: number | undefined;
      for (const { source, ledger, totals } of streams()) {
        const outcome = await addStream(withCluster(sums, source), query, ledger, totals());
        if (outcome.kind !== 'added') return outcome;
        partial ||= outcome.partial;
        head += outcome.head ?? 0;
        const reached = outcome.summedUpTo;
        if (reached !== undefined) summedUpTo = Math.min(summedUpTo ?? reached, reached);
      }
      return { kind: 'added', partial, head, summedUpTo };
    },
    events: (query) => eventsOfAll(streams(), query),
    late: async (month, query) => {
      const all = new LateUsage(month);
      for (const { source, totals } of streams()) {
        const late = await totals()?.late(month, query);
        const named = <T extends SummedUsage>(usage: T): T => ({
          ...usage,
          item: ofCluster(usage.item, source),
        });
        all.brought.push(...(late?.brought ?? []).map(named));
        all.moved.push(...(late?.moved ?? []).map(named));
      }
      return all;
    },
    since: async () => {
      const starts = await Promise.all(
        streams().map(
          async ({ ledger, totals }) => (await totals()?.since()) ?? ledger.stats().oldestAt,
        ),
      );
      const known = starts.filter((at) => at !== undefined);
      return known.length === 0 ? undefined : Math.min(...known);
    },
  };
}

async function addStream(
  sums: Summands,
  query: Parameters<UsageTotals['addTo']>[1],
  ledger: Ledger,
  totals: UsageTotals | undefined,
): Promise<TotalsOutcome> {
  if (totals !== undefined) return totals.addTo(sums, query);
  const { range, filter, signal } = query;
  const head = ledger.head();
  for await (const { event } of ledger.scan(range.from, range.to, signal)) {
    if (filter(event) && !sums.add(event)) return { kind: 'full' };
  }
  return { kind: 'added', partial: range.from < (ledger.stats().oldestAt ?? 0), head };
}

function withCluster(sums: Summands, source: string): Summands {
  return { add: (item, events) => sums.add(ofCluster(item, source), events) };
}

/** Adds the name of the cluster to the dimensions. */
function ofCluster<T extends Pick<UsageItem, 'dimensions'>>(item: T, source: string): T {
  return { ...item, dimensions: { ...item.dimensions, [CLUSTER_KEY]: source } };
}

async function* scanAll(
  streams: readonly SummedStream[],
  from: number,
  to: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<StoredEvent> {
  for (const { source, ledger } of streams) {
    for await (const { sequence, event } of ledger.scan(from, to, signal)) {
      yield { sequence, event: ofCluster(event, source) };
    }
  }
}

async function* eventsOfAll(
  streams: readonly SummedStream[],
  query: EventsQuery,
): AsyncGenerator<StoredEvent> {
  for (const { source, ledger, totals } of streams) {
    for await (const { sequence, event } of eventsIn(ledger, totals(), query)) {
      yield { sequence, event: ofCluster(event, source) };
    }
  }
}

/**
 * Records of all streams. The first stream comes last: for one key in two streams, the earlier
 * registered stream counts.
 */
async function* recordsOfAll(
  streams: readonly SummedStream[],
  prefix: string,
): AsyncGenerator<readonly [string, string]> {
  for (const { ledger } of streams.toReversed()) yield* ledger.records(prefix);
}

function statsOf(all: readonly LedgerStats[]): LedgerStats {
  const sum = (value: (stats: LedgerStats) => number): number =>
    all.reduce((total, stats) => total + value(stats), 0);
  const least = (values: readonly (number | undefined)[]): number | undefined => {
    const known = values.filter((value) => value !== undefined);
    return known.length === 0 ? undefined : Math.min(...known);
  };
  const lastWindowEnd = least(all.map((stats) => stats.lastWindowEnd));
  const oldestAt = least(all.map((stats) => stats.oldestAt));
  return {
    ledgerId: '',
    sequence: sum(({ sequence }) => sequence),
    bytes: Math.max(0, ...all.map(({ bytes }) => bytes)),
    segments: sum(({ segments }) => segments),
    chain: '',
    lastWindowEnd,
    oldestAt,
    conflicts: sum(({ conflicts }) => conflicts),
    horizon: Math.max(0, ...all.map(({ horizon }) => horizon)),
    problems: all.flatMap(({ problems }) => problems).slice(0, 20),
    disk: {
      level: 'normal',
      usedRatio: 0,
      retentionShortened: all.some(({ disk }) => disk.retentionShortened),
    },
  };
}
