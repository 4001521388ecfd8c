import type { Ledger, StoredEvent } from '../../ledger/ledger.ts';
import { periodOf } from '../../model/periods.ts';
import { EventPlaces } from './event-places.ts';
import { pagesNewerThan } from './newer-than.ts';
import { SumRows } from './sum-rows.ts';

/** The sums and the places of a tenant's events in one hour. */
interface HourOfTenant {
  readonly rows: SumRows;
  readonly places: EventPlaces;
}

/** Sums to add, by hour, then by tenant. */
export type SumChanges = ReadonlyMap<string, ReadonlyMap<string, HourOfTenant>>;

/** Most sums, and most ranges of places, in memory before they are stored. */
const MAX_CHANGED_SUMS = 20_000;
const MAX_CHANGED_RANGES = 200_000;

/** The sums of a run of events, before they are stored. */
export class Gathering {
  readonly #changes = new Map<string, Map<string, HourOfTenant>>();
  #progress: number;
  #first: string | undefined;
  #sums = 0;
  #ranges = 0;

  constructor(after: number) {
    this.#progress = after;
  }

  get changes(): SumChanges {
    return this.#changes;
  }

  /** The sequence number of the last event. */
  get progress(): number {
    return this.#progress;
  }

  /** The earliest `window_start`; undefined while there is no event. */
  get first(): string | undefined {
    return this.#first;
  }

  /** True when there is enough to store. */
  get isFull(): boolean {
    return this.#sums >= MAX_CHANGED_SUMS || this.#ranges >= MAX_CHANGED_RANGES;
  }

  add({ sequence, event }: StoredEvent): void {
    const hour = periodOf('hour', event.window_start);
    const tenants = this.#changes.get(hour) ?? new Map<string, HourOfTenant>();
    this.#changes.set(hour, tenants);
    const known = tenants.get(event.tenant);
    const { rows, places } = known ?? { rows: new SumRows(), places: new EventPlaces() };
    if (known === undefined) tenants.set(event.tenant, { rows, places });
    this.#sums -= rows.size;
    this.#ranges -= places.size;
    rows.addEvent(event);
    places.add(sequence);
    this.#sums += rows.size;
    this.#ranges += places.size;
    this.#progress = sequence;
    if (this.#first === undefined || event.window_start < this.#first) {
      this.#first = event.window_start;
    }
  }
}

/** Sums the events after a sequence number, up to `to` or until there is enough to store. */
export async function gather(
  ledger: Ledger,
  after: number,
  signal: AbortSignal,
  to = Infinity,
): Promise<Gathering> {
  const gathering = new Gathering(after);
  for await (const events of pagesNewerThan(ledger, after, signal)) {
    for (const stored of events) {
      if (stored.sequence > to) return gathering;
      gathering.add(stored);
      if (gathering.isFull) return gathering;
    }
  }
  return gathering;
}
