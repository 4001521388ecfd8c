import type { AddUsage } from '../billing/focus/period-usage.ts';
import { Gathering } from '../billing/usage/gather.ts';
import { LateUsage } from '../billing/usage/late-usage.ts';
import { decodeSums } from '../billing/usage/sum-rows.ts';
import { CLOSINGS } from '../billing/usage/sum-updater.ts';
import { SumsStore } from '../billing/usage/sums-store.ts';
import { LevelRollups } from '../ledger/leveldb/level-rollups.ts';
import { type LedgerPlace, selectEvents } from '../ledger/tool/events.ts';
import type { LedgerFacts } from '../ledger/tool/facts.ts';
import { coverRange } from '../model/periods.ts';

/** The usage of a ledger by hour and day, in a directory. */
export interface LedgerSums extends AsyncDisposable {
  readonly add: AddUsage;
  readonly late: (month: string) => Promise<LateUsage>;
  /** The earliest `window_start` of the ledger, milliseconds since the epoch. */
  readonly since: number | undefined;
}

/**
 * Sums the events of a ledger whose windows start before `to`, and closes months where its operator
 * did. Memory is bounded: the sums are in `directory`, which must be empty.
 */
export async function sumLedger(
  place: LedgerPlace,
  {
    facts,
    to,
    tenant,
  }: { readonly facts: LedgerFacts; readonly to: number; readonly tenant?: string },
  directory: string,
): Promise<LedgerSums> {
  const rollups = new LevelRollups(directory);
  const store = new SumsStore(rollups, '');
  const closings = await Array.fromAsync(facts.records(CLOSINGS));
  let since: number | undefined;
  let gathering = new Gathering(0);
  let stored = 0;
  const commit = async (): Promise<void> => {
    if (gathering.progress === stored) return;
    await store.commit(gathering, stored);
    stored = gathering.progress;
    gathering = new Gathering(stored);
  };
  for await (const { sequence, event } of selectEvents(place, {})) {
    for (
      let [next] = closings;
      next !== undefined && Number(next[1]) < sequence;
      [next] = closings
    ) {
      await commit();
      await store.closeMonth(next[0].slice(CLOSINGS.length));
      closings.shift();
    }
    const start = Date.parse(event.window_start);
    since = Math.min(since ?? start, start);
    if (start >= to || (tenant !== undefined && event.tenant !== tenant)) continue;
    gathering.add({ sequence, event });
    if (gathering.isFull) await commit();
  }
  await commit();
  return {
    since,
    late: async (month) => {
      const late = new LateUsage(month, tenant);
      await store.reading((found) => late.addStored(found));
      return late;
    },
    add: (sums, { from, to: end }, hourly) =>
      store.reading(async (found) => {
        const { days, hours } = coverRange(from, end, hourly);
        const periods = [
          ...days.map((day) => ['day', day] as const),
          ...hours.map((hour) => ['hour', hour] as const),
        ];
        for (const [kind, period] of periods) {
          for await (const [owner, text] of found.read(kind, period, tenant)) {
            for (const { item, events } of decodeSums(owner, period, text)) sums.add(item, events);
          }
        }
      }),
    [Symbol.asyncDispose]: () => rollups.close(),
  };
}
