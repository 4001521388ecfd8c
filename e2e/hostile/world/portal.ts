import {
  createPrivateKey,
  generateKeyPairSync,
  hash,
  createPublicKey,
  randomUUID,
} from 'node:crypto';
import { SignJWT } from 'jose';

/** Of the operator: its tokens name both (docs/how-to/portal.md#tokens). */
export const IDENTITY = { REGION: 'hostile-suite', CLUSTER_NAME: 'hostile-suite' } as const;

const HOUR_S = 3_600;
/** The operator signs for no longer than this. */
const DAY_S = 24 * HOUR_S;

/** What a token says that {@link signToken} makes; the rest is what the operator would say. */
export interface TokenWishes {
  readonly tenant: string;
  readonly id?: string;
  /** Seconds from now. */
  readonly issuedIn?: number;
  readonly validFor?: number;
  readonly claims?: Readonly<Record<string, unknown>>;
}

/** A new key that signs tokens of tenants: one line of base64, as PEM has it between its marks. */
export function newPortalKey(): string {
  const { privateKey } = generateKeyPairSync('ed25519');
  return privateKey.export({ type: 'pkcs8', format: 'der' }).toString('base64');
}

export function portalKeyPem(key: string): string {
  return `-----BEGIN PRIVATE KEY-----\n${key}\n-----END PRIVATE KEY-----\n`;
}

/**
 * Signs as the operator does, so that there are tokens before it is started, and such as it would not make: over, too
 * early, or another operator's.
 */
export function signToken(key: string, wishes: TokenWishes): Promise<string> {
  const { tenant, id = randomUUID(), issuedIn = 0, validFor = DAY_S, claims = {} } = wishes;
  const privateKey = createPrivateKey(portalKeyPem(key));
  const der = createPublicKey(privateKey).export({ type: 'spki', format: 'der' });
  const kid = hash('sha256', der, 'base64url').slice(0, 16);
  const issued = Math.floor(Date.now() / 1000) + issuedIn;
  const stated = {
    iss: `meterfeed:${JSON.stringify([IDENTITY.REGION, IDENTITY.CLUSTER_NAME])}`,
    aud: 'meterfeed-portal',
    sub: tenant,
    jti: id,
    iat: issued,
    exp: issued + validFor,
    series: '',
    ...claims,
  };
  return new SignJWT(stated).setProtectedHeader({ alg: 'EdDSA', kid, typ: 'JWT' }).sign(privateKey);
}

/** Tokens of a tenant that must not be good, by the reason; the operator has to be told of the one that is revoked. */
export async function badTokens(
  key: string,
  tenant: string,
  revokedId: string,
): Promise<Readonly<Record<string, string>>> {
  const made = (wishes: Omit<TokenWishes, 'tenant'>): Promise<string> =>
    signToken(key, { tenant, ...wishes });
  return {
    expired: await made({ issuedIn: -2 * HOUR_S, validFor: HOUR_S }),
    'older than a token may be': await made({ issuedIn: -2 * DAY_S, validFor: 30 * DAY_S }),
    'not good yet': await made({ issuedIn: 6 * HOUR_S }),
    revoked: await made({ id: revokedId }),
    'of an earlier series': await made({ claims: { series: randomUUID() } }),
    'of another operator': await made({ claims: { iss: 'meterfeed:["hostile-suite","other"]' } }),
    'for another purpose': await made({ claims: { aud: 'meterfeed' } }),
    'of nobody': await made({ claims: { sub: '' } }),
    'signed with another key': await signToken(newPortalKey(), { tenant }),
  };
}
