import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { decodeEvent, encodeEvent } from '../../model/event.ts';
import { storedTenant, type Tenant } from '../../model/tenant.ts';
import type { QueuedEvent } from '../delivery-result.ts';
import type { StoredLine } from './late-line.ts';
import { type UnsentRanges, withSequences } from './sequence-sets.ts';
import { inPresentForm, type TenantChanges } from './tenant-changes.ts';

const SEQUENCE_DIGITS = 16;

/** An event that was set aside so that the cursor can pass it, with the reason. */
export interface SetAsideEvent extends QueuedEvent {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly reason: string;
}

export interface OffboardRequest {
  readonly tenant: Tenant;
  /** The ledger's head at the time of the request. No event of the tenant follows it. */
  readonly sequence: number;
  /** Milliseconds since the epoch. */
  readonly requestedAt: number;
}

/** The type of a destination when its cursor began, and how far an operator has rewound it. */
export interface FeederState {
  readonly type: string;
  /** Events up to here may have been sent before, at a time that nobody recorded. */
  readonly resentUntil?: number;
}

/**
 * Reads and builds the ledger records of one destination. Stored events have their sequence number
 * in the key: they are listed in order, and a second write after a crash changes nothing.
 *
 *     delivery/<name>/state
 *     delivery/<name>/withheld                     passed by the cursor without being sent
 *     delivery/<name>/in-flight                    first attempts with an unknown outcome
 *     delivery/<name>/acknowledged/<chunk>         acknowledged events, as bits
 *     delivery/<name>/dead/<sequence>              dead letters
 *     delivery/<name>/replay/<sequence>            dead letters that are sent again
 *     delivery/<name>/parked/<tenant>/<sequence>   events that wait for their tenant
 *     delivery/<name>/tenant/<tenant>              the tenant as last provisioned
 *     delivery/<name>/offboard/<tenant>            requests to offboard a tenant
 *     delivery/<name>/late/<line>                  late usage billed separately, as one amount
 *     delivery/<name>/change/<tenant>              changes of plan: which plan bills which usage
 *     delivery/<name>/aggregated/<sequence>        events that version 0.1 sent as sums of an hour
 */
export function createDeliveryRecords(ledger: Ledger, name: string) {
  const root = `delivery/${encodeURIComponent(name)}`;
  return {
    ...cursorRecords(ledger, root),
    ...storedEvents(ledger, root),
    ...tenantRecords(ledger, root),
    ...sumRecords(ledger, root),
  };
}

export type DeliveryRecords = ReturnType<typeof createDeliveryRecords>;

/** Records about the cursor: state, unsent ranges, events in flight, acknowledgements. */
function cursorRecords(ledger: Ledger, root: string) {
  const acknowledgedKey = (chunk: number): string => `${root}/acknowledged/${padded(chunk)}`;
  return {
    state: () => one<FeederState>(ledger, `${root}/state`),
    putState: (state: FeederState): RecordChange => put(`${root}/state`, state),

    /** Returns the unsent ranges. They include late events that are billed separately. */
    unsent: async (): Promise<UnsentRanges> => {
      const withheld = (await one<UnsentRanges>(ledger, `${root}/withheld`)) ?? [];
      const separate: number[] = [];
      for await (const { parts } of all<StoredLine>(ledger, `${root}/late/`)) {
        for (const { sequence } of parts) separate.push(sequence);
      }
      return withSequences(withheld, separate);
    },
    putUnsent: (unsent: UnsentRanges): RecordChange =>
      unsent.length === 0 ? drop(`${root}/withheld`) : put(`${root}/withheld`, unsent),

    /** `[sequence, first attempt in milliseconds since the epoch]` of each event in flight. */
    inFlight: () => one<readonly (readonly [number, number])[]>(ledger, `${root}/in-flight`),
    putInFlight: (entries: readonly (readonly [number, number])[]): RecordChange =>
      entries.length === 0 ? drop(`${root}/in-flight`) : put(`${root}/in-flight`, entries),

    acknowledged: async function* (): AsyncGenerator<readonly [chunk: number, bits: Buffer]> {
      for await (const [key, value] of ledger.records(`${root}/acknowledged/`)) {
        yield [numberOf(key), Buffer.from(value, 'base64')];
      }
    },
    putAcknowledged: (chunk: number, bits: Buffer): RecordChange => ({
      key: acknowledgedKey(chunk),
      value: bits.toString('base64'),
    }),
    dropAcknowledged: (chunk: number): RecordChange => drop(acknowledgedKey(chunk)),
  };
}

/** Events that were set aside: dead letters, replays, and events that wait for their tenant. */
function storedEvents(ledger: Ledger, root: string) {
  const deadKey = (sequence: number): string => `${root}/dead/${padded(sequence)}`;
  const replayKey = (sequence: number): string => `${root}/replay/${padded(sequence)}`;
  const parkedKey = (tenant: string, sequence: number): string =>
    `${keyOf(root, 'parked', tenant)}/${padded(sequence)}`;
  async function* stored(prefix: string): AsyncGenerator<SetAsideEvent> {
    for await (const [key, value] of ledger.records(prefix)) yield decodeStored(key, value);
  }

  return {
    dead: () => stored(`${root}/dead/`),
    deadLetter: async (sequence: number): Promise<SetAsideEvent | undefined> => {
      const value = await ledger.record(deadKey(sequence));
      return value === undefined ? undefined : decodeStored(deadKey(sequence), value);
    },
    putDead: (event: SetAsideEvent): RecordChange => putStored(deadKey(event.sequence), event),
    dropDead: (sequence: number): RecordChange => drop(deadKey(sequence)),

    replay: () => stored(`${root}/replay/`),
    putReplay: (event: SetAsideEvent): RecordChange => putStored(replayKey(event.sequence), event),
    dropReplay: (sequence: number): RecordChange => drop(replayKey(sequence)),

    parked: () => stored(`${root}/parked/`),
    parkedOf: (tenant: string) => stored(`${keyOf(root, 'parked', tenant)}/`),
    putParked: (event: SetAsideEvent): RecordChange =>
      putStored(parkedKey(event.event.tenant, event.sequence), event),
    dropParked: (tenant: string, sequence: number): RecordChange =>
      drop(parkedKey(tenant, sequence)),
  };
}

/** Records about tenants: as last provisioned, offboard requests, changes of plan. */
function tenantRecords(ledger: Ledger, root: string) {
  return {
    tenant: async (id: string): Promise<Tenant | undefined> => {
      const stored = await one<Tenant>(ledger, keyOf(root, 'tenant', id));
      return stored && storedTenant(stored);
    },
    putTenant: (tenant: Tenant): RecordChange => put(keyOf(root, 'tenant', tenant.id), tenant),
    dropTenant: (id: string): RecordChange => drop(keyOf(root, 'tenant', id)),

    offboards: async function* (): AsyncGenerator<OffboardRequest> {
      for await (const request of all<OffboardRequest>(ledger, `${root}/offboard/`)) {
        yield { ...request, tenant: storedTenant(request.tenant) };
      }
    },
    putOffboard: (request: OffboardRequest): RecordChange =>
      put(keyOf(root, 'offboard', request.tenant.id), request),
    dropOffboard: (id: string): RecordChange => drop(keyOf(root, 'offboard', id)),

    changes: async function* (): AsyncGenerator<TenantChanges> {
      for await (const changes of all<TenantChanges>(ledger, `${root}/change/`)) {
        yield inPresentForm(changes);
      }
    },
    putChanges: (changes: TenantChanges): RecordChange =>
      put(keyOf(root, 'change', changes.tenant), changes),
    dropChanges: (id: string): RecordChange => drop(keyOf(root, 'change', id)),
  };
}

/** Records about sums: lines of late usage, and sums of an hour that an earlier version sent. */
function sumRecords(ledger: Ledger, root: string) {
  return {
    late: () => all<StoredLine>(ledger, `${root}/late/`),
    putLate: (line: StoredLine): RecordChange => put(`${root}/late/${line.id}`, line),
    dropLate: (id: string): RecordChange => drop(`${root}/late/${id}`),

    /**
     * Returns the last sequence number that an earlier version sent, or began to send, in an hour's
     * sum (`aggregate: 1h`); 0 without sums. Events up to there have other ids at the destination.
     */
    sumsUntil: async (): Promise<number> => {
      let until = 0;
      for await (const { to } of all<{ readonly to: number }>(ledger, `${root}/aggregated/`)) {
        until = Math.max(until, to);
      }
      return until;
    },
    dropSums: async function* (): AsyncGenerator<RecordChange> {
      for await (const [key] of ledger.records(`${root}/aggregated/`)) yield drop(key);
    },
  };
}

function keyOf(root: string, kind: string, tenant: string): string {
  return `${root}/${kind}/${encodeURIComponent(tenant)}`;
}

async function one<T>(ledger: Ledger, key: string): Promise<T | undefined> {
  const value = await ledger.record(key);
  return value === undefined ? undefined : (JSON.parse(value) as T);
}

async function* all<T>(ledger: Ledger, prefix: string): AsyncGenerator<T> {
  for await (const [, value] of ledger.records(prefix)) yield JSON.parse(value) as T;
}

/** Returns the first `limit` items of a listing. */
export async function firstOf<T>(listing: AsyncIterable<T>, limit: number): Promise<T[]> {
  const found: T[] = [];
  for await (const item of listing) {
    found.push(item);
    if (found.length >= limit) break;
  }
  return found;
}

function put(key: string, value: unknown): RecordChange {
  return { key, value: JSON.stringify(value) };
}

function drop(key: string): RecordChange {
  return { key, value: undefined };
}

/** Stores the event as its ledger text, so that its quantity keeps every digit. */
function putStored(
  key: string,
  { at, reason, event, unansweredSince, forced }: SetAsideEvent,
): RecordChange {
  const stored = { at, reason, event: encodeEvent(event), unansweredSince, forced };
  return { key, value: JSON.stringify(stored) };
}

function decodeStored(key: string, value: string): SetAsideEvent {
  const { event, ...fields } = JSON.parse(value) as Omit<SetAsideEvent, 'sequence' | 'event'> & {
    readonly event: string;
  };
  return { ...fields, sequence: numberOf(key), event: decodeEvent(event) };
}

function numberOf(key: string): number {
  return Number(key.slice(key.lastIndexOf('/') + 1));
}

function padded(sequence: number): string {
  return String(sequence).padStart(SEQUENCE_DIGITS, '0');
}
