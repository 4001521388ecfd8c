import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { decodeEvent, encodeEvent, type UsageEvent } from '../../model/event.ts';

/** A pushed event as a record: held, stored under another name, or not stored at all. */
export interface PushedEvent {
  /** When it arrived, milliseconds since the epoch. */
  readonly at: number;
  /** In its pushed form. */
  readonly event: UsageEvent;
}

const ROOT = 'ingest';
const HELD = `${ROOT}/held/`;
const USED = `${ROOT}/used/`;
const ADMITTED = `${ROOT}/admitted/`;

/**
 * The ledger records of pushed usage (docs/reference/events.md#unknown-tenants):
 *
 *     ingest/admitted/<tenant>     a tenant with admitted pushed usage: when first
 *     ingest/held/<tenant>/<id>    an event that waits for a decision about its tenant
 *     ingest/used/<id>             a held event that was renamed or discarded: its id stays used
 */
export class HeldRecords {
  readonly #ledger: Pick<Ledger, 'record' | 'records'>;

  constructor(ledger: Pick<Ledger, 'record' | 'records'>) {
    this.#ledger = ledger;
  }

  held(): AsyncIterable<PushedEvent> {
    return this.#stored(HELD);
  }

  heldOf(tenant: string): AsyncIterable<PushedEvent> {
    return this.#stored(heldKey(tenant, ''));
  }

  findHeld(tenant: string, id: string): Promise<PushedEvent | undefined> {
    return this.#find(heldKey(tenant, id));
  }

  putHeld(one: PushedEvent): RecordChange {
    return { key: heldKey(one.event.tenant, one.event.id), value: encodeStored(one) };
  }

  dropHeld({ tenant, id }: UsageEvent): RecordChange {
    return { key: heldKey(tenant, id), value: undefined };
  }

  used(): AsyncIterable<PushedEvent> {
    return this.#stored(USED);
  }

  findUsed(id: string): Promise<PushedEvent | undefined> {
    return this.#find(USED + id);
  }

  putUsed(one: PushedEvent): RecordChange {
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

  async #find(key: string): Promise<PushedEvent | undefined> {
    const value = await this.#ledger.record(key);
    return value === undefined ? undefined : decodeStored(value);
  }

  async *#stored(prefix: string): AsyncGenerator<PushedEvent> {
    for await (const [, value] of this.#ledger.records(prefix)) yield decodeStored(value);
  }
}

function heldKey(tenant: string, id: string): string {
  return `${HELD}${encodeURIComponent(tenant)}/${id}`;
}

/** Stores the event in the ledger's encoding, so that its quantity keeps every digit. */
function encodeStored({ at, event }: PushedEvent): string {
  return JSON.stringify({ at, event: encodeEvent(event) });
}

function decodeStored(value: string): PushedEvent {
  const { at, event } = JSON.parse(value) as { at: number; event: string };
  return { at, event: decodeEvent(event) };
}
