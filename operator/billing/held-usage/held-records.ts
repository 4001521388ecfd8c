import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { decodeEvent, encodeEvent, type UsageEvent } from '../../model/event.ts';

/** A pushed event that is not in the sequence of events, or not as it was pushed. */
export interface StoredEvent {
  /** When it came, milliseconds since the epoch. */
  readonly at: number;
  /** As it was pushed. */
  readonly event: UsageEvent;
}

const ROOT = 'ingest';
const HELD = `${ROOT}/held/`;
const USED = `${ROOT}/used/`;
const ADMITTED = `${ROOT}/admitted/`;

/**
 * The ledger records of pushed usage (docs/reference/events.md#unknown-tenants):
 *
 *     ingest/admitted/<tenant>     pushed for, and let through: when first
 *     ingest/held/<tenant>/<id>    events that wait until somebody decides about their tenant
 *     ingest/used/<id>             held events that were renamed or discarded: their ids stay used
 */
export class HeldRecords {
  readonly #ledger: Pick<Ledger, 'record' | 'records'>;

  constructor(ledger: Pick<Ledger, 'record' | 'records'>) {
    this.#ledger = ledger;
  }

  held(): AsyncIterable<StoredEvent> {
    return this.#stored(HELD);
  }

  heldOf(tenant: string): AsyncIterable<StoredEvent> {
    return this.#stored(heldKey(tenant, ''));
  }

  findHeld(tenant: string, id: string): Promise<StoredEvent | undefined> {
    return this.#find(heldKey(tenant, id));
  }

  putHeld(one: StoredEvent): RecordChange {
    return { key: heldKey(one.event.tenant, one.event.id), value: encodeStored(one) };
  }

  dropHeld({ tenant, id }: UsageEvent): RecordChange {
    return { key: heldKey(tenant, id), value: undefined };
  }

  used(): AsyncIterable<StoredEvent> {
    return this.#stored(USED);
  }

  findUsed(id: string): Promise<StoredEvent | undefined> {
    return this.#find(USED + id);
  }

  putUsed(one: StoredEvent): RecordChange {
    return { key: USED + one.event.id, value: encodeStored(one) };
  }

  dropUsed(id: string): RecordChange {
    return { key: USED + id, value: undefined };
  }

  async *admitted(): AsyncGenerator<readonly [tenant: string, since: number]> {
    for await (const [key, value] of this.#ledger.records(ADMITTED)) {
      yield [decodeURIComponent(key.slice(ADMITTED.length)), Number(value)];
    }
  }

  putAdmitted(tenant: string, at: number): RecordChange {
    return { key: `${ADMITTED}${encodeURIComponent(tenant)}`, value: String(at) };
  }

  async #find(key: string): Promise<StoredEvent | undefined> {
    const value = await this.#ledger.record(key);
    return value === undefined ? undefined : decodeStored(value);
  }

  async *#stored(prefix: string): AsyncGenerator<StoredEvent> {
    for await (const [, value] of this.#ledger.records(prefix)) yield decodeStored(value);
  }
}

function heldKey(tenant: string, id: string): string {
  return `${HELD}${encodeURIComponent(tenant)}/${id}`;
}

/** The event stays the text that it is in the ledger, so that its quantity keeps every digit. */
function encodeStored({ at, event }: StoredEvent): string {
  return JSON.stringify({ at, event: encodeEvent(event) });
}

function decodeStored(value: string): StoredEvent {
  const { at, event } = JSON.parse(value) as { at: number; event: string };
  return { at, event: decodeEvent(event) };
}
