import type { Ledger, RecordChange } from '../ledger/ledger.ts';
import { decodeEvent, encodeEvent, type UsageEvent } from '../model/event.ts';

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
 * The ledger records of pushed usage (docs/events.md#unknown-tenants):
 *
 *     ingest/admitted/<tenant>     pushed for, and let through: when first
 *     ingest/held/<tenant>/<id>    events that wait until somebody decides about their tenant
 *     ingest/used/<id>             held events that were renamed or discarded: their ids stay used
 */
export function createHeldRecords(ledger: Pick<Ledger, 'record' | 'records'>) {
  const heldPrefix = (tenant: string): string => `${HELD}${encodeURIComponent(tenant)}/`;
  const heldKey = ({ tenant, id }: UsageEvent): string => `${heldPrefix(tenant)}${id}`;
  const usedKey = (id: string): string => `${USED}${id}`;
  const admittedKey = (tenant: string): string => `${ADMITTED}${encodeURIComponent(tenant)}`;

  async function* kept(prefix: string): AsyncGenerator<KeptEvent> {
    for await (const [, value] of ledger.records(prefix)) yield decodeKept(value);
  }

  return {
    held: () => kept(HELD),
    heldOf: (tenant: string) => kept(heldPrefix(tenant)),
    putHeld: (one: KeptEvent): RecordChange => ({
      key: heldKey(one.event),
      value: encodeKept(one),
    }),
    dropHeld: (event: UsageEvent): RecordChange => ({ key: heldKey(event), value: undefined }),
    findHeld: async (tenant: string, id: string): Promise<KeptEvent | undefined> => {
      const value = await ledger.record(`${heldPrefix(tenant)}${id}`);
      return value === undefined ? undefined : decodeKept(value);
    },

    used: () => kept(USED),
    putUsed: (one: KeptEvent): RecordChange => ({
      key: usedKey(one.event.id),
      value: encodeKept(one),
    }),
    dropUsed: (id: string): RecordChange => ({ key: usedKey(id), value: undefined }),
    findUsed: async (id: string): Promise<KeptEvent | undefined> => {
      const value = await ledger.record(usedKey(id));
      return value === undefined ? undefined : decodeKept(value);
    },

    admitted: async function* (): AsyncGenerator<readonly [tenant: string, since: number]> {
      for await (const [key, value] of ledger.records(ADMITTED)) {
        yield [decodeURIComponent(key.slice(ADMITTED.length)), Number(value)];
      }
    },
    putAdmitted: (tenant: string, at: number): RecordChange => ({
      key: admittedKey(tenant),
      value: String(at),
    }),
  };
}

export type HeldRecords = ReturnType<typeof createHeldRecords>;

/** The event stays the text that it is in the ledger, so that its quantity keeps every digit. */
function encodeKept({ at, event }: KeptEvent): string {
  return JSON.stringify({ at, event: encodeEvent(event) });
}

function decodeKept(value: string): KeptEvent {
  const { at, event } = JSON.parse(value) as { at: number; event: string };
  return { at, event: decodeEvent(event) };
}
