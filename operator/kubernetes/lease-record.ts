import { isRecord } from '../model/is-record.ts';
import { metadataOf, microTime } from './resource.ts';
import type { RawObject } from './source.ts';

/** The fields of a Lease that leader election uses. */
export interface LeaseRecord {
  readonly resourceVersion: string;
  /** `''` when nobody holds it. */
  readonly holder: string;
  /** Milliseconds for which the lease is valid after a renewal. */
  readonly durationMs: number;
  readonly transitions: number;
  readonly acquireTime: string;
  /** Changes with each renewal; compared only with its earlier value, never with a clock. */
  readonly renewTime: string;
  /** The ledger's newest sequence number at the last renewal; undefined when not recorded. */
  readonly ledgerHead: number | undefined;
}

/** Annotation: the sequence number of the newest event in the holder's ledger. */
const LEDGER_HEAD = 'meterfeed.io/ledger-head';

/** Parses a Lease; undefined when it has no resourceVersion. */
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
 * Lets a process take over the lease of an earlier process on the same ledger before it expires. It
 * is safe under two conditions:
 * 1. The caller has locked the ledger, so no other process uses this volume.
 * 2. The ledger's head is not older than the lease's, so this volume is no copy of an earlier
 *    state.
 */
export interface Succession {
  /** Common prefix of the identities of all processes on this ledger. */
  readonly prefix: string;
  /** Sequence number of the ledger's newest event; each renewal writes it into the lease. */
  readonly head: () => number;
}

/**
 * The Lease object that claims, renews or releases. Its resourceVersion is that of `current`, so
 * the write fails if somebody else wrote since.
 */
export function leaseObject(
  claim: {
    readonly namespace: string;
    readonly name: string;
    /** `''` releases the lease. */
    readonly holder: string;
    readonly durationMs: number;
    /** Wall clock, milliseconds; for people only, nothing measures with it. */
    readonly now: number;
    readonly ledgerHead: number | undefined;
  },
  current: LeaseRecord | undefined,
): RawObject {
  const { namespace, name, holder, now, ledgerHead } = claim;
  const isRenewal = current?.holder === holder;
  const changesHands = current !== undefined && !isRenewal && holder !== '';
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: {
      namespace,
      name,
      resourceVersion: current?.resourceVersion,
      annotations: ledgerHead === undefined ? undefined : { [LEDGER_HEAD]: `${ledgerHead}` },
    },
    spec: {
      holderIdentity: holder,
      leaseDurationSeconds: Math.ceil(claim.durationMs / 1000),
      acquireTime: isRenewal && current.acquireTime !== '' ? current.acquireTime : microTime(now),
      renewTime: microTime(now),
      leaseTransitions: (current?.transitions ?? 0) + (changesHands ? 1 : 0),
    },
  };
}
