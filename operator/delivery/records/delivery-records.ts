import type { Ledger, RecordChange } from '../../ledger/ledger.ts';
import { decodeEvent, encodeEvent } from '../../model/event.ts';
import { storedTenant, type Tenant } from '../../model/tenant.ts';
import type { QueuedEvent } from '../delivery-result.ts';
import type { StoredLine } from './late-line.ts';
import { type UnsentRanges, withSequences } from './sequence-sets.ts';
import type { TenantChanges } from './tenant-changes.ts';

const SEQUENCE_DIGITS = 16;

/** An event kept out of the cursor's way, with the reason why. */
export interface SetAsideEvent extends QueuedEvent {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly reason: string;
}

export interface OffboardRequest {
  readonly tenant: Tenant;
  /** The head when it was asked for; no event of the tenant lies behind it. */
  readonly sequence: number;
  /** Milliseconds since the epoch. */
  readonly requestedAt: number;
}

/** What a destination was like when its cursor began, and how far an operator has rewound it. */
export interface FeederState {
  readonly type: string;
  /** Events up to here may have been sent before, longer ago than anybody recorded. */
  readonly resentUntil?: number;
}

/**
 * The ledger records of one destination. Kept events are keyed by sequence number, so that keeping one
 * again after a crash changes nothing, and they are listed in order:
 *
 *     delivery/<name>/state
 *     delivery/<name>/withheld                     passed by the cursor without being sent
 *     delivery/<name>/in-flight
 *     delivery/<name>/acknowledged/<chunk>         which events it acknowledged, as bits
 *     delivery/<name>/dead/<sequence>              dead letters
 *     delivery/<name>/replay/<sequence>            dead letters that are to be sent once more
 *     delivery/<name>/parked/<tenant>/<sequence>   events that wait for their tenant
 *     delivery/<name>/tenant/<tenant>              the tenant as it was provisioned last
 *     delivery/<name>/offboard/<tenant>            tenants that are to be offboarded
 *     delivery/<name>/late/<line>                  late usage that is billed apart, as one amount
 *     delivery/<name>/change/<tenant>              its changes of plan: which usage is whose
 *     delivery/<name>/aggregated/<sequence>        what of the ledger version 0.1 sent as sums of an hour
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

/** The state of the feed, and which events behind the cursor were not sent, are in flight, or were acknowledged. */
function cursorRecords(ledger: Ledger, root: string) {
  const acknowledgedKey = (chunk: number): string => `${root}/acknowledged/${padded(chunk)}`;
  return {
    state: () => one<FeederState>(ledger, `${root}/state`),
    putState: (state: FeederState): RecordChange => put(`${root}/state`, state),

    /** What was billed apart from the usage of its time was not sent either. */
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

/** Events kept out of the cursor's way: dead letters, those that are sent once more, and those that wait for their tenant. */
function storedEvents(ledger: Ledger, root: string) {
  const deadKey = (sequence: number): string => `${root}/dead/${padded(sequence)}`;
  const replayKey = (sequence: number): string => `${root}/replay/${padded(sequence)}`;
  const parkedKey = (tenant: string, sequence: number): string =>
    `${keyOf(root, 'parked', tenant)}/${padded(sequence)}`;
  async function* kept(prefix: string): AsyncGenerator<SetAsideEvent> {
    for await (const [key, value] of ledger.records(prefix)) yield decodeStored(key, value);
  }

  return {
    dead: () => kept(`${root}/dead/`),
    deadLetter: async (sequence: number): Promise<SetAsideEvent | undefined> => {
      const value = await ledger.record(deadKey(sequence));
      return value === undefined ? undefined : decodeStored(deadKey(sequence), value);
    },
    putDead: (event: SetAsideEvent): RecordChange => putStored(deadKey(event.sequence), event),
    dropDead: (sequence: number): RecordChange => drop(deadKey(sequence)),

    replay: () => kept(`${root}/replay/`),
    putReplay: (event: SetAsideEvent): RecordChange => putStored(replayKey(event.sequence), event),
    dropReplay: (sequence: number): RecordChange => drop(replayKey(sequence)),

    parked: () => kept(`${root}/parked/`),
    parkedOf: (tenant: string) => kept(`${keyOf(root, 'parked', tenant)}/`),
    putParked: (event: SetAsideEvent): RecordChange =>
      putStored(parkedKey(event.event.tenant, event.sequence), event),
    dropParked: (tenant: string, sequence: number): RecordChange =>
      drop(parkedKey(tenant, sequence)),
  };
}

/** Tenants as they were provisioned, those that are to be offboarded, and changes of their plans. */
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

    changes: () => all<TenantChanges>(ledger, `${root}/change/`),
    putChanges: (changes: TenantChanges): RecordChange =>
      put(keyOf(root, 'change', changes.tenant), changes),
    dropChanges: (id: string): RecordChange => drop(keyOf(root, 'change', id)),
  };
}

/** Late usage that is billed as one amount, and what an earlier version sent as sums. */
function sumRecords(ledger: Ledger, root: string) {
  return {
    late: () => all<StoredLine>(ledger, `${root}/late/`),
    putLate: (line: StoredLine): RecordChange => put(`${root}/late/${line.id}`, line),
    dropLate: (id: string): RecordChange => drop(`${root}/late/${id}`),

    /**
     * Returns the last sequence number that an earlier version sent, or began to send, as a part of an hour's sum
     * (`aggregate: 1h`); 0 where it sent none. Events up to there have other ids at the destination.
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

/** The first `limit` of a listing. */
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

/** The event stays the text that it is in the ledger, so that its quantity keeps every digit. */
function putStored(
  key: string,
  { at, reason, event, unansweredSince, forced }: SetAsideEvent,
): RecordChange {
  const kept = { at, reason, event: encodeEvent(event), unansweredSince, forced };
  return { key, value: JSON.stringify(kept) };
}

function decodeStored(key: string, value: string): SetAsideEvent {
  const { event, ...kept } = JSON.parse(value) as Omit<SetAsideEvent, 'sequence' | 'event'> & {
    readonly event: string;
  };
  return { ...kept, sequence: numberOf(key), event: decodeEvent(event) };
}

/** The number at the end of a key. */
function numberOf(key: string): number {
  return Number(key.slice(key.lastIndexOf('/') + 1));
}

function padded(sequence: number): string {
  return String(sequence).padStart(SEQUENCE_DIGITS, '0');
}
