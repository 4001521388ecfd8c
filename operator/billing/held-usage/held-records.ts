import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { decodeEvent, encodeEvent, type UsageEvent } from '../../model/event.ts';

/** A pushed event that is not in the sequence of events, or not as it was pushed. */
export interface KeptEvent {
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

  held(): AsyncIterable<KeptEvent> {
    return this.#kept(HELD);
  }

  heldOf(tenant: string): AsyncIterable<KeptEvent> {
    return this.#kept(heldKey(tenant, ''));
  }

  findHeld(tenant: string, id: string): Promise<KeptEvent | undefined> {
    return this.#find(heldKey(tenant, id));
  }

  putHeld(one: KeptEvent): RecordChange {
    return { key: heldKey(one.event.tenant, one.event.id), value: encodeKept(one) };
  }

  dropHeld({ tenant, id }: UsageEvent): RecordChange {
    return { key: heldKey(tenant, id), value: undefined };
  }

  used(): AsyncIterable<KeptEvent> {
    return this.#kept(USED);
  }

  findUsed(id: string): Promise<KeptEvent | undefined> {
    return this.#find(USED + id);
  }

  putUsed(one: KeptEvent): RecordChange {
    return { key: USED + one.event.id, value: encodeKept(one) };
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

  async #find(key: string): Promise<KeptEvent | undefined> {
    const value = await this.#ledger.record(key);
    return value === undefined ? undefined : decodeKept(value);
  }

  async *#kept(prefix: string): AsyncGenerator<KeptEvent> {
    for await (const [, value] of this.#ledger.records(prefix)) yield decodeKept(value);
  }
}

function heldKey(tenant: string, id: string): string {
  return `${HELD}${encodeURIComponent(tenant)}/${id}`;
}

/** The event stays the text that it is in the ledger, so that its quantity keeps every digit. */
function encodeKept({ at, event }: KeptEvent): string {
  return JSON.stringify({ at, event: encodeEvent(event) });
}

function decodeKept(value: string): KeptEvent {
  const { at, event } = JSON.parse(value) as { at: number; event: string };
  return { at, event: decodeEvent(event) };
}
