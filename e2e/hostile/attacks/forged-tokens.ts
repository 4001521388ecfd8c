import { createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import type { RawObject } from '../../../operator/kubernetes/source.ts';
import { isRecord } from '../../../operator/model/is-record.ts';
import type { Random } from '../../faults/random.ts';
import { mutated } from './mutate.ts';
import { expandMarks, hostileText } from './values.ts';

/** Longer ones are refused with the headers that they are in. */
const MOST_CHARACTERS = 6_000;

/** A token that nobody must be let in with. */
export interface ForgedToken {
  /** In which way it is wrong, for people. */
  readonly how: string;
  readonly text: string;
}

interface Parts {
  readonly header: RawObject;
  readonly claims: RawObject;
  /** As they are in the token. */
  readonly head: string;
  readonly body: string;
  readonly signature: string;
}

const ownKey = generateKeyPairSync('ed25519').privateKey;
const otherKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;

/** Makes another token of one that is good, in a way that needs no key of the operator, so that it names another tenant or lasts longer. */
export function forgeToken(random: Random, good: string, others: readonly string[]): ForgedToken {
  const parts = partsOf(good);
  const claims = { ...parts.claims, ...random.pick(WISHES)(random.pick(others)) };
  const [how, make] = random.pick(FORGERIES);
  return { how, text: make({ ...parts, claims }, random).slice(0, random.pick(LENGTHS)) };
}

/** What whoever forges a token wants it to say. */
const WISHES: readonly ((other: string) => RawObject)[] = [
  (other) => ({ sub: other }),
  (other) => ({ sub: [other] }),
  (other) => ({ sub: { toString: other } }),
  (other) => ({ sub: `${other}\u0000` }),
  () => ({ exp: 4_102_444_800 }),
  () => ({ exp: 1e308, iat: 0 }),
  () => ({ series: '__proto__' }),
  (other) => ({ sub: other, iss: '*', aud: ['meterfeed-portal', 'x'] }),
];

type Forgery = (parts: Parts, random: Random) => string;

const FORGERIES: readonly (readonly [how: string, make: Forgery])[] = [
  [
    'other claims under the old signature',
    (parts) => joined(parts.header, parts.claims, parts.signature),
  ],
  ['no signature', (parts) => joined(parts.header, parts.claims, '')],
  [
    'the algorithm none',
    ({ header, claims, signature }, random) => {
      const alg = random.pick(['none', 'None', 'NONE', 'nOnE', '', null, 0, ['EdDSA']]);
      return joined({ ...header, alg }, claims, random.pick(['', signature, 'AA']));
    },
  ],
  [
    'signed with a secret',
    ({ header, claims }, random) => {
      const alg = random.pick(['HS256', 'HS384', 'HS512']);
      const secret = random.pick(['portal', '', JSON.stringify(header['kid'])]);
      const text = joined({ ...header, alg }, claims);
      const digest = alg.replace('HS', 'sha');
      return `${text}.${createHmac(digest, secret).update(text).digest('base64url')}`;
    },
  ],
  ['signed with a key of one’s own', ({ header, claims }) => signed(header, claims, ownKey)],
  [
    'signed with a key of one’s own that it brings along',
    ({ header, claims }, random) => {
      const jwk = publicKey(ownKey);
      const brought = random.pick<RawObject>([
        { jwk },
        { jwk, kid: undefined },
        { jku: 'http://127.0.0.1:1/keys' },
        { x5u: 'http://127.0.0.1:1/keys', x5c: ['AA'] },
        { kid: '../../../../dev/null' },
        { kid: ['__proto__'], jwk },
        { kid: { length: 16 } },
      ]);
      return signed({ ...header, ...brought }, claims, ownKey);
    },
  ],
  [
    'signed with another kind of key',
    ({ header, claims }) => signed({ ...header, alg: 'ES256' }, claims, otherKey),
  ],
  [
    'what its reader does not know',
    ({ header, claims }, random) => {
      const more = random.pick<RawObject>([
        { crit: ['b64'], b64: false },
        { crit: ['exp'] },
        { crit: [] },
        { zip: 'DEF' },
        { cty: 'JWT' },
        { enc: 'A256GCM', alg: 'dir' },
      ]);
      return signed({ ...header, ...more }, claims, ownKey);
    },
  ],
  [
    'mutated',
    ({ header, claims }, random) => {
      const [head, body] = random.chance(0.5)
        ? [mutated(header, random), claims]
        : [header, mutated(claims, random)];
      return signed(head, body, ownKey);
    },
  ],
  ['truncated', (_parts, random) => good(_parts).slice(0, -random.between(3, 60))],
  [
    'parts in another order, or more of them',
    ({ head, body, signature }, random) =>
      random.pick([
        `${body}.${head}.${signature}`,
        `${head}.${body}.${signature}.${signature}`,
        `${head}.${body}.${signature}.${head}.${body}`,
        `${head}..${signature}`,
        `.${body}.${signature}`,
        '..',
        `${head}.${body}`,
      ]),
  ],
  [
    'a signature of nonsense',
    ({ head, body }, random) =>
      `${head}.${body}.${Buffer.alloc(random.pick([0, 1, 64, 65, 3_000]), random.between(0, 255)).toString('base64url')}`,
  ],
  ['texts that are no token', (_parts, random) => hostileText(random).replaceAll(/[^ -~]/g, '?')],
  ['huge', (parts, random) => good(parts).repeat(random.pick([10, 1_000]))],
];

const LENGTHS = [MOST_CHARACTERS, MOST_CHARACTERS, 16_384, 200_000];

function good({ head, body, signature }: Parts): string {
  return `${head}.${body}.${signature}`;
}

function partsOf(token: string): Parts {
  const [head = '', body = '', signature = ''] = token.split('.');
  return { header: decoded(head), claims: decoded(body), head, body, signature };
}

function decoded(part: string): RawObject {
  const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString());
  return isRecord(value) ? value : {};
}

function joined(header: RawObject, claims: RawObject, signature?: string): string {
  const parts = [header, claims].map((part) =>
    Buffer.from(expandMarks(JSON.stringify(part)).slice(0, MOST_CHARACTERS)).toString('base64url'),
  );
  return [...parts, ...(signature === undefined ? [] : [signature])].join('.');
}

function signed(header: RawObject, claims: RawObject, key: KeyObject): string {
  const text = joined(header, claims);
  const isCurve = key.asymmetricKeyType === 'ec';
  const signature = isCurve
    ? sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' })
    : sign(null, Buffer.from(text), key);
  return `${text}.${signature.toString('base64url')}`;
}

function publicKey(key: KeyObject): RawObject {
  const { d: _private, ...jwk } = key.export({ format: 'jwk' });
  return { ...jwk };
}
