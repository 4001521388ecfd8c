import pLimit from 'p-limit';
import {
  AFTER_ALL_KEYS,
  DamagedRollups,
  type Rollups,
  type RollupView,
} from '../../ledger/rollups.ts';
import { monthAfter, monthOf, type PeriodKind, PERIOD_MS, periodOf } from '../../model/periods.ts';
import { EventPlaces, type SequenceRange } from './event-places.ts';
import type { Gathering, SumChanges } from './gather.ts';
import { countEvents, SumRows } from './sum-rows.ts';

/** Raise it when the stored form changes: the sums are then rebuilt from the ledger. */
const FORMAT = 1;
const PROGRESS_KEY = 'progress';
const BEGAN_KEY = 'began';
/** The last closed month. */
const CLOSED_KEY = 'closed';
/** The progress while sums are being deleted or copied. Readers then treat the sums as damaged. */
const UNFINISHED = '{}';

/**
 * What is stored by period: sums of hours and days, the places of an hour's events, and usage of
 * closed months by the month that bills it.
 */
type StoredKind = PeriodKind | 'places' | 'late';

/**
 * Retention: hours for a detailed view, days for more than a year of invoices, places as long as
 * events may exist.
 */
export const STORED_MS: Readonly<Record<StoredKind, number>> = {
  hour: 70 * PERIOD_MS.day,
  places: 35 * PERIOD_MS.day,
  day: 400 * PERIOD_MS.day,
  late: 400 * PERIOD_MS.day,
};

/** Keys copied at a time. */
const COPIED_KEYS = 500;

/**
 * Sums of usage by hour and day, and the places of each hour's events. All of it is derived from
 * the ledger. Each write is one transaction with the sequence number of the last summed event, so a
 * kill never counts an event twice or loses one.
 */
export class SumsStore {
  readonly #rollups: Rollups;
  readonly #ledgerId: string;
  /** Each write depends on what is stored. */
  readonly #oneAtATime = pLimit(1);

  constructor(rollups: Rollups, ledgerId: string) {
    this.#rollups = rollups;
    this.#ledgerId = ledgerId;
  }

  /**
   * Runs `work` on a consistent snapshot. Throws a DamagedRollups when the sums are damaged or
   * belong to another ledger.
   */
  reading<T>(work: (sums: StoredSums) => Promise<T>): Promise<T> {
    return this.#rollups.snapshot(async (view) => work(await this.#open(view)));
  }

  /** The sequence number of the last summed event; 0 if there is none. */
  progress(): Promise<number> {
    return this.reading(async ({ progress }) => progress);
  }

  /**
   * Adds the sums of the events after `from` in one transaction, those of closed months once more
   * as late. Returns false when the stored progress is not `from`.
   */
  commit({ progress, changes, first }: Gathering, from: number): Promise<boolean> {
    return this.#oneAtATime(async () => {
      const texts = await this.#rollups.snapshot(async (view) => {
        if ((await this.#open(view)).progress !== from) return undefined;
        const [closed] = await view.get([CLOSED_KEY]);
        const merged = mergePeriods(changes, closed);
        const stored = await view.get([...merged.keys()]);
        return [...merged].map(([key, change], index) => {
          return [key, change.encodeAfter(stored[index] ?? '[]')] as const;
        });
      });
      if (texts === undefined) return false;
      const changed = new Map(texts);
      if (from === 0 && first !== undefined) changed.set(BEGAN_KEY, first);
      const last = { format: FORMAT, ledger: this.#ledgerId, sequence: progress };
      await this.#rollups.put(changed.set(PROGRESS_KEY, JSON.stringify(last)));
      return true;
    });
  }

  /**
   * Closes a month, such as `2026-10`: usage of it that is summed later is late. `note` durably
   * notes the sequence number of the last summed event, for a rebuild.
   */
  closeMonth(month: string, note?: (progress: number) => Promise<void>): Promise<void> {
    return this.#oneAtATime(async () => {
      const [closed, progress] = await this.reading(
        async (sums) => [(await sums.closed()) ?? '', sums.progress] as const,
      );
      if (closed >= month) return;
      await note?.(progress);
      await this.#rollups.put(new Map([[CLOSED_KEY, month]]));
    });
  }

  /** Deletes periods past their retention. `now` is milliseconds since the epoch. */
  async expire(now: number): Promise<void> {
    for (const kind of ['hour', 'places', 'day', 'late'] as const) {
      const start = new Date(now - STORED_MS[kind]).toISOString();
      const oldest =
        kind === 'late' ? monthOf(start) : periodOf(kind === 'day' ? kind : 'hour', start);
      await this.#rollups.drop(`${kind}/`, keyOf(kind, oldest, ''));
    }
  }

  /** Deletes everything; the progress is 0 again. */
  clear(): Promise<void> {
    return this.#oneAtATime(() => this.#clear());
  }

  /**
   * Copies the sums of the same ledger from another store, if this one is empty. Resolves to true
   * if it did.
   */
  adopt(other: Rollups): Promise<boolean> {
    return this.#oneAtATime(async () => {
      const progress = await this.progress().catch((error: unknown) => {
        // An attempt that was killed.
        if (error instanceof DamagedRollups) return 0;
        throw error;
      });
      if (progress > 0) return false;
      await this.#clear();
      return other.snapshot(async (view) => {
        if ((await this.#open(view)).progress === 0) return false;
        const [last] = await view.get([PROGRESS_KEY]);
        await this.#rollups.put(new Map([[PROGRESS_KEY, UNFINISHED]]));
        let some = new Map<string, string>();
        for await (const [key, text] of view.list('')) {
          if (key !== PROGRESS_KEY) some.set(key, text);
          if (some.size < COPIED_KEYS) continue;
          await this.#rollups.put(some);
          some = new Map();
        }
        await this.#rollups.put(some.set(PROGRESS_KEY, last ?? UNFINISHED));
        return true;
      });
    });
  }

  async #clear(): Promise<void> {
    // A process that is killed here leaves sums that read as damaged.
    await this.#rollups.put(new Map([[PROGRESS_KEY, UNFINISHED]]));
    await this.#rollups.drop('', PROGRESS_KEY);
    await this.#rollups.drop(PROGRESS_KEY, AFTER_ALL_KEYS);
  }

  async #open(view: RollupView): Promise<StoredSums> {
    const [text] = await view.get([PROGRESS_KEY]);
    if (text === undefined) return new StoredSums(view, 0);
    const { format, ledger, sequence } = JSON.parse(text) as Readonly<Record<string, unknown>>;
    if (format === FORMAT && ledger === this.#ledgerId && typeof sequence === 'number') {
      return new StoredSums(view, sequence);
    }
    throw new DamagedRollups(`another format or ledger: usage sums: ${text}`);
  }
}

/** A snapshot of the stored sums. */
export class StoredSums {
  readonly #view: RollupView;
  /** The sequence number of the last summed event; 0 if there is none. */
  readonly progress: number;

  constructor(view: RollupView, progress: number) {
    this.#view = view;
    this.progress = progress;
  }

  /** The encoded sums of a period, of one tenant or of all. */
  async *read(
    kind: PeriodKind,
    period: string,
    tenant: string | undefined,
  ): AsyncGenerator<readonly [tenant: string, sums: string]> {
    const prefix = keyOf(kind, period, '');
    if (tenant === undefined) {
      for await (const [key, text] of this.#view.list(prefix)) {
        yield [key.slice(prefix.length), text];
      }
      return;
    }
    const [text] = await this.#view.get([prefix + tenant]);
    if (text !== undefined) yield [tenant, text];
  }

  /**
   * Where the summed events of a tenant in these hours are; undefined if that is unknown for one of
   * the hours. Ranges may overlap and contain events of other tenants.
   */
  async places(
    hours: readonly string[],
    tenant: string,
  ): Promise<readonly SequenceRange[] | undefined> {
    const keysOf = (kind: StoredKind) => hours.map((hour) => keyOf(kind, hour, tenant));
    const texts = await this.#view.get([...keysOf('hour'), ...keysOf('places')]);
    const ranges: SequenceRange[] = [];
    for (const index of hours.keys()) {
      const [sum, place] = [texts[index], texts[hours.length + index]];
      const found = new EventPlaces();
      if (place !== undefined) found.addEncoded(place);
      // An earlier release stored sums without places.
      if (found.events !== (sum === undefined ? 0 : countEvents(sum))) return undefined;
      ranges.push(...found.ranges());
    }
    return ranges;
  }

  /** The last closed month, such as `2026-10`; undefined before the first. */
  async closed(): Promise<string | undefined> {
    const [text] = await this.#view.get([CLOSED_KEY]);
    return text;
  }

  /**
   * The encoded sums of closed months that a month bills, by hour and tenant. `of` is a month to
   * read alone.
   */
  async *late(
    month: string,
    of = '',
  ): AsyncGenerator<readonly [hour: string, tenant: string, sums: string]> {
    const start = keyOf('late', month, '');
    for await (const [key, text] of this.#view.list(start + of)) {
      const at = key.indexOf('/', start.length);
      yield [key.slice(start.length, at), key.slice(at + 1), text];
    }
  }

  /** The first stored period of a kind; undefined if there is none. */
  async first(kind: PeriodKind): Promise<string | undefined> {
    return (await this.#view.first(`${kind}/`))?.split('/')[1];
  }

  /**
   * The earliest `window_start` of the first stored sums; undefined if an earlier release stored
   * them.
   */
  async began(): Promise<string | undefined> {
    const [text] = await this.#view.get([BEGAN_KEY]);
    return text;
  }
}

interface Change {
  /**
   * Encodes the change on top of the stored text, `[]` if there is none. Throws when the text is
   * invalid.
   */
  encodeAfter(stored: string): string;
}

/** The changes of hours, of the days that contain them, and of months up to `closed`, by key. */
function mergePeriods(changes: SumChanges, closed = ''): Map<string, Change> {
  const days = new Map<string, SumRows[]>();
  const merged = new Map<string, Change>();
  for (const [hour, tenants] of changes) {
    for (const [tenant, { rows, places }] of tenants) {
      merged.set(keyOf('hour', hour, tenant), rows);
      merged.set(keyOf('places', hour, tenant), places);
      if (monthOf(hour) <= closed) {
        merged.set(keyOf('late', monthAfter(closed), `${hour}/${tenant}`), rows);
      }
      const day = keyOf('day', periodOf('day', hour), tenant);
      const hours = days.get(day);
      if (hours === undefined) days.set(day, [rows]);
      else hours.push(rows);
    }
  }
  for (const [day, hours] of days) merged.set(day, SumRows.of(hours));
  return merged;
}

/** Periods of one kind have a fixed length, so the tenant may be any text. */
function keyOf(kind: StoredKind, period: string, tenant: string): string {
  return `${kind}/${period}/${tenant}`;
}
