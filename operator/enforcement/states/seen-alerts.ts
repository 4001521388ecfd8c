import { hash } from 'node:crypto';
import type { RecordChange } from '../../ledger/ledger.ts';
import type { DestinationType } from '../../model/destination-type.ts';
import type { RecordStore } from './state-store.ts';

const PREFIX = 'enforcement/seen/';

/** How long a message is known again; billing systems repeat themselves for up to some weeks. */
export const REMEMBER_MS = 30 * 86_400_000;

/** Some 15 MB; a fleet's alerts of 30 days are a fraction of it. */
const MOST_REMEMBERED = 100_000;

/** Deleted with one write. */
const PRUNED_AT_ONCE = 1_000;

/** Which messages have been acted upon, so that a repeat does nothing, also after a restart. */
export interface SeenAlerts {
  has(key: SeenKey): boolean;
  /** What is to be written in the same unit as the alert's effect; then call {@link add}. */
  changes(keys: readonly SeenKey[], now: number): readonly RecordChange[];
  /** The changes have been written. */
  add(keys: readonly SeenKey[], now: number): void;
  /** Durably forgets what is old or too much. Gives how many were forgotten before their time. */
  prune(now: number): Promise<number>;
}

/** Names a message without keeping it. */
export type SeenKey = string & { readonly brand: 'seen' };

/** By the id that the billing system gave the message. */
export function keyOfId(provider: DestinationType, id: string): SeenKey {
  return `${provider}/${hash('sha256', `id\0${id}`, 'hex').slice(0, 32)}` as SeenKey;
}

/** By what it says, where the id is no part of what is signed. */
export function keyOfBody(provider: DestinationType, body: Uint8Array): SeenKey {
  return `${provider}/${hash('sha256', body, 'hex').slice(0, 32)}` as SeenKey;
}

/** Throws when the ledger cannot be read. */
export async function loadSeenAlerts(
  ledger: RecordStore,
  most: number = MOST_REMEMBERED,
): Promise<SeenAlerts> {
  const loaded: (readonly [SeenKey, number])[] = [];
  for await (const [key, value] of ledger.records(PREFIX)) {
    const at = Number(value);
    loaded.push([key.slice(PREFIX.length) as SeenKey, Number.isFinite(at) ? at : 0]);
  }
  /** Oldest first. */
  const seen = new Map(loaded.toSorted(([, a], [, b]) => a - b));

  const forget = async (keys: readonly SeenKey[]): Promise<boolean> => {
    const changes = keys.map((key) => ({ key: PREFIX + key, value: undefined }));
    const outcome = await ledger.writeRecords(changes);
    if (outcome.kind === 'failed') return false;
    for (const key of keys) seen.delete(key);
    return true;
  };

  return {
    has: (key) => seen.has(key),
    changes: (keys, now) => keys.map((key) => ({ key: PREFIX + key, value: String(now) })),
    add: (keys, now) => {
      for (const key of keys) seen.set(key, now);
    },
    prune: async (now) => {
      let early = 0;
      while (true) {
        const tooMany = seen.size - most;
        const batch = [...seen.entries()]
          .slice(0, PRUNED_AT_ONCE)
          .filter(([, at], index) => now - at > REMEMBER_MS || index < tooMany);
        if (batch.length === 0 || !(await forget(batch.map(([key]) => key)))) return early;
        early += batch.filter(([, at]) => now - at <= REMEMBER_MS).length;
      }
    },
  };
}
