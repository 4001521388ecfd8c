import { hash, type KeyObject, randomUUID } from 'node:crypto';
import { errors, type JWTHeaderParameters, jwtVerify, SignJWT } from 'jose';
import type { IdentitySettings } from '../../settings/settings.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { SigningKeys } from './signing-keys.ts';

/** The longest validity of a token. */
export const LONGEST_MS = 24 * 3_600_000;

const AUDIENCE = 'meterfeed-portal';
const ALGORITHMS = ['EdDSA', 'ES256'];
/** Clocks of processes that sign and check differ by up to a minute. */
const TOLERANCE_S = 60;
/** The first three groups of a UUID, each with its hyphen. */
const RANDOM_CHARACTERS = 19;

/** The claims of a token: whose usage its bearer may read (docs/how-to/portal.md#tokens). */
export interface PortalClaims {
  readonly id: string;
  readonly tenant: string;
  /** The series of the tenant's tokens. A new series ends all tokens of the one before. */
  readonly series: string;
}

/** The result of a check. `ended`: signed here, and expired or revoked. */
export type SignedToken =
  | { readonly kind: 'good'; readonly claims: PortalClaims }
  | { readonly kind: 'ended' }
  | { readonly kind: 'unknown' };

/** JSON Web Tokens of this operator, each for one tenant (RFC 7519). */
export class PortalTokens {
  readonly #options;

  constructor(options: {
    /** The first key signs. */
    readonly keys: SigningKeys;
    readonly identity: () => Pick<IdentitySettings, 'clusterName' | 'region'>;
    readonly clock: Pick<Clock, 'now'>;
  }) {
    this.#options = options;
  }

  /** Signs a token for at most {@link LONGEST_MS}; undefined where there is no key. */
  async sign(
    { tenant, series }: Omit<PortalClaims, 'id'>,
    validMs: number,
  ): Promise<
    { readonly id: string; readonly token: string; readonly expiresAt: number } | undefined
  > {
    const [key] = this.#options.keys.all();
    if (key === undefined) return undefined;
    const id = newTokenId(tenant);
    const issuedAt = Math.floor(this.#options.clock.now() / 1000);
    const expiresAt = issuedAt + Math.floor(Math.min(validMs, LONGEST_MS) / 1000);
    const token = await new SignJWT({ series })
      .setProtectedHeader({ alg: key.algorithm, kid: key.id, typ: 'JWT' })
      .setIssuer(this.#issuer())
      .setAudience(AUDIENCE)
      .setSubject(tenant)
      .setJti(id)
      .setIssuedAt(issuedAt)
      .setExpirationTime(expiresAt)
      .sign(key.privateKey);
    return { id, token, expiresAt: expiresAt * 1000 };
  }

  /** Checks a token. Any text may be given; it never rejects. */
  async check(token: string): Promise<SignedToken> {
    try {
      const { payload } = await jwtVerify(token, (header) => this.#keyOf(header), {
        algorithms: ALGORITHMS,
        issuer: this.#issuer(),
        audience: AUDIENCE,
        requiredClaims: ['sub', 'jti', 'iat', 'exp', 'series'],
        maxTokenAge: LONGEST_MS / 1000,
        clockTolerance: TOLERANCE_S,
        currentDate: new Date(this.#options.clock.now()),
      });
      const { jti: id, sub: tenant, series } = payload;
      if (id === undefined || !tenant || typeof series !== 'string') return { kind: 'unknown' };
      return { kind: 'good', claims: { id, tenant, series } };
    } catch (error) {
      return { kind: error instanceof errors.JWTExpired ? 'ended' : 'unknown' };
    }
  }

  /**
   * The key for the header of a token. The key decides the algorithm: a token cannot choose how it
   * is checked.
   */
  #keyOf({ alg, kid }: JWTHeaderParameters): KeyObject {
    const key = this.#options.keys
      .all()
      .find(({ id, algorithm }) => id === kid && algorithm === alg);
    if (key === undefined) throw new errors.JWKSNoMatchingKey();
    return key.publicKey;
  }

  /** Names this operator: the tokens of another one are not valid here, even with the same key. */
  #issuer(): string {
    const { clusterName, region } = this.#options.identity();
    return `meterfeed:${JSON.stringify([region, clusterName])}`;
  }
}

/**
 * Returns a new id in the form of a UUID: 60 random bits, then 64 bits of a hash of those and of
 * the tenant.
 */
export function newTokenId(tenant: string): string {
  const random = randomUUID().slice(0, RANDOM_CHARACTERS);
  return random + tenantDigits(random, tenant);
}

/** Whether a token with this id was made for this tenant. The operator keeps no list of tokens. */
export function isTokenIdOf(tenant: string, id: string): boolean {
  const random = id.slice(0, RANDOM_CHARACTERS);
  return id === random + tenantDigits(random, tenant);
}

/** `4f1c-0d2e9a7b3c5d`, the last two groups of a UUID. */
function tenantDigits(random: string, tenant: string): string {
  const digits = hash('sha256', `${random}\0${tenant}`, 'hex').slice(0, 16);
  return `${digits.slice(0, 4)}-${digits.slice(4)}`;
}
