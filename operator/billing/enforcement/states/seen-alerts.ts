import { hash } from 'node:crypto';
import { hmac } from '../../../destinations/signatures.ts';
import type { RecordChange, RecordStore } from '../../../ledger/ledger.ts';
import type { Secret } from '../../../model/secret.ts';
import type { DestinationType } from '../../../model/destination-type.ts';

const PREFIX = 'enforcement/seen/';

/** How long a message with a known time is remembered. Systems repeat messages for weeks. */
export const REMEMBER_MS = 30 * 86_400_000;

/** About 15 MB. A fleet's alerts of 30 days, and years of undated ones, are a fraction of it. */
const MOST_REMEMBERED = 100_000;

/** Records deleted in one write. */
const PRUNED_AT_ONCE = 1_000;

export interface SeenMessage {
  readonly key: SeenKey;
  /**
   * The name of the secret that signed it, when neither the signature nor the message has a time.
   * Then only this record stops a replay, and it is kept as long as the secret is in use.
   */
  readonly signedBy?: string;
}

/** Identifies a message by a hash. */
export type SeenKey = string & { readonly brand: 'seen' };

/** The key of the id that the billing system gave the message. */
export function keyOfId(provider: DestinationType, id: string): SeenKey {
  return `${provider}/${hash('sha256', `id\0${id}`, 'hex').slice(0, 32)}` as SeenKey;
}

/** The key of the body, for messages whose signature does not cover the id. */
export function keyOfBody(provider: DestinationType, body: Uint8Array): SeenKey {
  return `${provider}/${hash('sha256', body, 'hex').slice(0, 32)}` as SeenKey;
}

/** Names a secret by a keyed hash that reveals nothing of it. */
export function secretName(secret: Secret): string {
  return hmac(secret, 'meterfeed: seen alerts').toString('hex').slice(0, 8);
}

/** When a message arrived, milliseconds since the epoch. */
interface Seen {
  readonly at: number;
  readonly signedBy?: string;
}

/** Applied messages, so that a repeat does nothing, also after a restart. Call `load` first. */
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

  /** Records to write in the transaction of the message's effect. Call {@link add} afterwards. */
  changes(messages: readonly SeenMessage[], now: number): readonly RecordChange[] {
    return messages.map(({ key, signedBy }) => {
      const value = signedBy === undefined ? String(now) : `${now} ${signedBy}`;
      return { key: PREFIX + key, value };
    });
  }

  /** Marks messages as seen, once their records are written. */
  add(messages: readonly SeenMessage[], now: number): void {
    for (const { key, signedBy } of messages) {
      this.#seen.set(key, { at: now, signedBy });
    }
  }

  /** Replaces everything known by the records of the ledger. Throws when it cannot be read. */
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
   * Durably deletes old and surplus messages. `secrets` are the names of those in use. Returns how
   * many were deleted early.
   */
  async prune(now: number, secrets: ReadonlySet<string>): Promise<number> {
    const isOver = ({ at, signedBy }: Seen): boolean =>
      signedBy === undefined && now - at > REMEMBER_MS;
    const isUseless = ({ signedBy }: Seen): boolean =>
      signedBy !== undefined && !secrets.has(signedBy);
    const all = [...this.#seen];
    const over = all.filter(([, each]) => isOver(each));
    const remaining = all.filter(([, each]) => !isOver(each));
    // A secret may come back into use. So messages of an unused one go only to make room, but
    // first.
    const byPriority = [
      ...remaining.filter(([, each]) => isUseless(each)),
      ...remaining.filter(([, { signedBy }]) => signedBy === undefined),
      ...remaining.filter(([, each]) => each.signedBy !== undefined && !isUseless(each)),
    ];
    const going = [...over, ...byPriority.slice(0, Math.max(0, remaining.length - this.#most))];
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
