import { isRecord } from '../model/is-record.ts';
import { metadataOf, microTime } from './resource.ts';
import type { RawObject } from './source.ts';

/** A Lease as election reads it. */
export interface LeaseRecord {
  readonly resourceVersion: string;
  /** `''` when nobody holds it. */
  readonly holder: string;
  /** For how long its holder may rely on it without renewing. */
  readonly durationMs: number;
  readonly transitions: number;
  readonly acquireTime: string;
  /** Changes whenever the holder renews; compared with itself only, never with a clock. */
  readonly renewTime: string;
  /** How far its holder's ledger went when it wrote last; undefined where that is not said. */
  readonly ledgerHead: number | undefined;
}

/** How far the ledger of the holder goes: the sequence number of its newest event. */
const LEDGER_HEAD = 'meterfeed.io/ledger-head';

/** Undefined when it is not a Lease. */
export function parseLease(object: unknown): LeaseRecord | undefined {
  const { resourceVersion, annotations } = metadataOf(object);
  if (typeof resourceVersion !== 'string') return undefined;
  const spec = isRecord(object) && isRecord(object['spec']) ? object['spec'] : {};
  const text = (field: string): string => {
    const value = spec[field];
    return typeof value === 'string' ? value : '';
  };
  const number = (field: string): number => {
    const value = spec[field];
    return typeof value === 'number' ? value : 0;
  };
  return {
    resourceVersion,
    holder: text('holderIdentity'),
    durationMs: number('leaseDurationSeconds') * 1000,
    transitions: number('leaseTransitions'),
    acquireTime: text('acquireTime'),
    renewTime: text('renewTime'),
    ledgerHead: headOf(isRecord(annotations) ? annotations[LEDGER_HEAD] : undefined),
  };
}

function headOf(text: unknown): number | undefined {
  return typeof text === 'string' && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/**
 * When the lease of an earlier process on the same ledger is taken back without waiting for its
 * expiry. The ledger's lock, which the caller holds, says that no other process is on this volume;
 * that the ledger is no copy of an earlier state is said by its head.
 */
export interface Succession {
  /** What the identities of all processes on this ledger begin with. */
  readonly prefix: string;
  /** How far the ledger goes; it is written into the lease with each renewal. */
  readonly head: () => number;
}

/** The Lease object that claims, renews or gives up; guarded by the version of `held` when there is one. */
export function leaseObject(
  claim: {
    readonly namespace: string;
    readonly name: string;
    /** `''` gives it up. */
    readonly holder: string;
    readonly durationMs: number;
    /** Wall clock, milliseconds. Written for people; nobody measures with it. */
    readonly now: number;
    readonly ledgerHead: number | undefined;
  },
  held: LeaseRecord | undefined,
): RawObject {
  const { namespace, name, holder, now, ledgerHead } = claim;
  const isRenewal = held?.holder === holder;
  const changesHands = held !== undefined && !isRenewal && holder !== '';
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      namespace,
      name,
      resourceVersion: held?.resourceVersion,
      annotations: ledgerHead === undefined ? undefined : { [LEDGER_HEAD]: `${ledgerHead}` },
    },
    spec: {
      holderIdentity: holder,
      leaseDurationSeconds: Math.ceil(claim.durationMs / 1000),
      acquireTime: isRenewal && held.acquireTime !== '' ? held.acquireTime : microTime(now),
      renewTime: microTime(now),
      leaseTransitions: (held?.transitions ?? 0) + (changesHands ? 1 : 0),
    },
  };
}
