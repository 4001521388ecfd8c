import type { AddUsage } from '../billing/focus/period-usage.ts';
import { Gathering } from '../billing/usage/gather.ts';
import { decodeSums } from '../billing/usage/sum-rows.ts';
import { SumsStore } from '../billing/usage/sums-store.ts';
import { LevelRollups } from '../ledger/leveldb/level-rollups.ts';
import { type LedgerPlace, selectEvents } from '../ledger/tool/events.ts';
import { coverRange } from '../model/periods.ts';
import type { TimeRange } from '../model/window.ts';

/** The usage of a month by hour and day, in a directory. */
export interface FocusMonthSums extends AsyncDisposable {
  readonly add: AddUsage;
  /** The earliest `window_start` of the ledger, milliseconds since the epoch. */
  since(): number | undefined;
}

/**
 * Sums the events of a ledger whose windows start in a range of complete days. Memory is bounded:
 * the sums are in `directory`, which must be empty.
 */
export async function sumMonth(
  place: LedgerPlace,
  range: TimeRange,
  tenant: string | undefined,
  directory: string,
): Promise<FocusMonthSums> {
  const rollups = new LevelRollups(directory);
  const store = new SumsStore(rollups, '');
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
    const start = Date.parse(event.window_start);
    since = Math.min(since ?? start, start);
    if (start < range.from || start >= range.to) continue;
    if (tenant !== undefined && event.tenant !== tenant) continue;
    gathering.add({ sequence, event });
    if (gathering.isFull) await commit();
  }
  await commit();
  return {
    since: () => since,
    add: (sums, { from, to }, hourly) =>
      store.reading(async (found) => {
        const { days, hours } = coverRange(from, to, hourly);
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
