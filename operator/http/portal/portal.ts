import type { JsonWebKey } from 'node:crypto';
import type { IdentitySettings } from '../../settings/settings.ts';
import type { Ledger, WriteOutcome } from '../../ledger/ledger.ts';
import type { Secret } from '../../model/secret.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { PortalTokens, type SignedToken } from './portal-tokens.ts';
import { Revocations } from './revocations.ts';
import { SigningKeys } from './signing-keys.ts';
import { isEd25519, publicKeyOf, signStatement } from './statement-signature.ts';

/** Creates, checks and revokes portal tokens (docs/how-to/portal.md). */
export class Portal {
  readonly #keys: SigningKeys;
  readonly #tokens: PortalTokens;
  readonly #revocations: Revocations;

  constructor(options: {
    /** PEM; the first key signs. The same list until the keys change. */
    readonly keys: () => readonly Secret[];
    readonly identity: () => IdentitySettings;
    readonly ledger: Pick<Ledger, 'record' | 'records' | 'writeRecords'>;
    readonly clock: Pick<Clock, 'now'>;
  }) {
    this.#keys = new SigningKeys(options.keys);
    this.#tokens = new PortalTokens({ ...options, keys: this.#keys });
    this.#revocations = new Revocations(options.ledger, options.clock);
  }

  /** Whether the portal has a key. Without one there is no portal. */
  isOn(): boolean {
    return this.#keys.all().length > 0;
  }

  /**
   * Creates a token; show it to its requester only. Undefined when there is no key. Rejects when
   * the ledger cannot be read.
   */
  async mint(tenant: string, validMs: number): ReturnType<PortalTokens['sign']> {
    return this.#tokens.sign({ tenant, series: await this.#revocations.seriesOf(tenant) }, validMs);
  }

  /** Checks a token. Rejects when the ledger cannot be read, because the token may be revoked. */
  async check(token: string): Promise<SignedToken> {
    const checked = await this.#tokens.check(token);
    if (checked.kind !== 'good') return checked;
    return (await this.#revocations.has(checked.claims)) ? { kind: 'ended' } : checked;
  }

  /** Signs the end of a statement; undefined without an Ed25519 key. */
  signStatement(payload: object): Promise<string> | undefined {
    const key = this.#keys.all().find(isEd25519);
    return key && signStatement(key, payload);
  }

  /** The public keys of statements, as a JSON Web Key Set (RFC 7517). */
  statementKeys(): { readonly keys: readonly JsonWebKey[] } {
    return { keys: this.#keys.all().filter(isEd25519).map(publicKeyOf) };
  }

  /**
   * Revokes one token of a tenant, or all of them when no id is given, from the next request on.
   */
  revoke(tenant: string, id?: string): Promise<WriteOutcome> {
    return id === undefined
      ? this.#revocations.revokeAll(tenant)
      : this.#revocations.revoke(tenant, id);
  }
}
