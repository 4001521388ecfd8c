import { hash } from 'node:crypto';
import { hmac } from '../../../destinations/signatures.ts';
import type { RecordChange } from '../../../ledger/ledger.ts';
import type { Secret } from '../../../model/secret.ts';
import type { DestinationType } from '../../../model/destination-type.ts';
import type { RecordStore } from './state-store.ts';

const PREFIX = 'enforcement/seen/';

/**
 * How long a message is known again whose age can be told; billing systems repeat themselves for up to
 * some weeks.
 */
export const REMEMBER_MS = 30 * 86_400_000;

/** Some 15 MB; a fleet's alerts of 30 days, and undated ones of years, are a fraction of it. */
const MOST_REMEMBERED = 100_000;

/** Deleted with one write. */
const PRUNED_AT_ONCE = 1_000;

export interface SeenMessage {
  readonly key: SeenKey;
  /**
   * The name of the secret that signed it, where neither the signature nor the message tells its age: then
   * only this memory stops a replay, and it is remembered as long as the secret is in use.
   */
  readonly signedBy?: string;
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

/** Tells secrets apart without saying anything of them. */
export function secretName(secret: Secret): string {
  return hmac(secret, 'meterfeed: seen alerts').toString('hex').slice(0, 8);
}

/** When a message was taken in, milliseconds since the epoch. */
interface Seen {
  readonly at: number;
  readonly signedBy?: string;
}

/**
 * Which messages have been acted upon, so that a repeat does nothing, also after a restart. Knows none, until it is loaded.
 */
export class SeenAlerts {
  readonly #ledger: RecordStore;
  readonly #most: number;
  /** Oldest first. */
  readonly #seen = new Map<SeenKey, Seen>();

  constructor(ledger: RecordStore, most: number = MOST_REMEMBERED) {
    this.#ledger = ledger;
    this.#most = most;
  }

  has(key: SeenKey): boolean {
    return this.#seen.has(key);
  }

  /** What is to be written in the same unit as the alert's effect; then call {@link add}. */
  changes(messages: readonly SeenMessage[], now: number): readonly RecordChange[] {
    return messages.map(({ key, signedBy }) => {
      const value = signedBy === undefined ? String(now) : `${now} ${signedBy}`;
      return { key: PREFIX + key, value };
    });
  }

  /** The changes have been written. */
  add(messages: readonly SeenMessage[], now: number): void {
    for (const { key, signedBy } of messages) {
      this.#seen.set(key, { at: now, signedBy });
    }
  }

  /** Reads what is on disk, in place of all that is known; throws when the ledger cannot be read. */
  async load(): Promise<void> {
    const loaded: (readonly [SeenKey, Seen])[] = [];
    for await (const [key, value] of this.#ledger.records(PREFIX)) {
      loaded.push([key.slice(PREFIX.length) as SeenKey, parseSeen(value)]);
    }
    this.#seen.clear();
    for (const [key, each] of loaded.toSorted(([, a], [, b]) => a.at - b.at)) {
      this.#seen.set(key, each);
    }
  }

  /**
   * Durably forgets what is old or too much; `secrets` has the names of those in use. Gives how many
   * were forgotten before their time.
   */
  async prune(now: number, secrets: ReadonlySet<string>): Promise<number> {
    const isOver = ({ at, signedBy }: Seen): boolean =>
      signedBy === undefined && now - at > REMEMBER_MS;
    const isUseless = ({ signedBy }: Seen): boolean =>
      signedBy !== undefined && !secrets.has(signedBy);
    const all = [...this.#seen];
    const over = all.filter(([, each]) => isOver(each));
    const rest = all.filter(([, each]) => !isOver(each));
    // A secret that is out of use may come back, so what it signed goes only to make room, and first.
    const inSlice = [
      ...rest.filter(([, each]) => isUseless(each)),
      ...rest.filter(([, { signedBy }]) => signedBy === undefined),
      ...rest.filter(([, each]) => each.signedBy !== undefined && !isUseless(each)),
    ];
    const going = [...over, ...inSlice.slice(0, Math.max(0, rest.length - this.#most))];
    let early = 0;
    for (let from = 0; from < going.length; from += PRUNED_AT_ONCE) {
      const batch = going.slice(from, from + PRUNED_AT_ONCE);
      if (!(await this.#forget(batch.map(([key]) => key)))) return early;
      early += batch.filter(([, each]) => !isOver(each) && !isUseless(each)).length;
    }
    return early;
  }

  async #forget(keys: readonly SeenKey[]): Promise<boolean> {
    const changes = keys.map((key) => ({ key: PREFIX + key, value: undefined }));
    const outcome = await this.#ledger.writeRecords(changes);
    if (outcome.kind === 'failed') return false;
    for (const key of keys) this.#seen.delete(key);
    return true;
  }
}

/** `<milliseconds>`, or `<milliseconds> <name of the secret>`. */
function parseSeen(value: string): Seen {
  const [time, signedBy] = value.split(' ');
  const at = Number(time);
  return { at: Number.isFinite(at) ? at : 0, signedBy };
}
