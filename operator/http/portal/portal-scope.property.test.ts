import { Agent, request as httpRequest } from 'node:http';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { API_TOKEN, NOW } from '../testing/test-server.ts';
import { claimsOf, forge, newKey } from './testing/keys.ts';
import {
  CANARY,
  FOREIGN,
  KEY,
  OLD_KEY,
  OWN,
  type TwoTenants,
  twoTenants,
} from './testing/two-tenants.ts';

const REQUESTS = 10_000;
const OTHER_METHODS = ['HEAD', 'POST', 'PUT', 'DELETE'];
const KEYS = [
  'tenant',
  'sku',
  'source',
  'project',
  'tenant_cluster',
  'gpu_type',
  'day',
  'hour',
  'theirs',
];
const PARAMETERS = ['tenant', 'metric', 'project', 'region', 'sku', 'cluster', 'gpu_type', 'limit'];

/** Ways to write a text in an address, right and wrong. */
const WRITINGS: readonly ((text: string) => string)[] = [
  encodeURIComponent,
  (text) => encodeURIComponent(encodeURIComponent(text)),
  (text) => [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  (text) => encodeURIComponent(text).replaceAll('%', '%25%').slice(0, 200),
  (text) => encodeURIComponent(text).toUpperCase(),
  (text) => `${encodeURIComponent(text)}%00`,
  (text) => `${encodeURIComponent(text)}/..`,
  (text) => `..%2f${encodeURIComponent(text)}`,
  (text) => `.%2e/${encodeURIComponent(text)}`,
  (text) => `${encodeURIComponent(text)}%`,
  (text) => `${encodeURIComponent(text)}%c0%af`,
  (text) => `${encodeURIComponent(text)};x=1`,
  (text) => encodeURIComponent(text).replaceAll('%20', '+'),
];

interface Wish {
  readonly method: string;
  readonly path: string;
  readonly token: string;
  readonly header: 'authorization' | 'x-meterfeed-token';
  readonly maxAge: boolean;
  /** An operator asks for the same first, so that whatever is kept is there. */
  readonly primed: boolean;
}

test(`${REQUESTS.toLocaleString('en')} requests with names, ids and tokens of others get no row of theirs, and none makes the server fail`, async () => {
  await using world = await twoTenants();
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const tokens = await tokensOf(world);
  const seen = new Map<number, number>();
  let rows = 0;
  const query = (method: string, path: string, headers: Readonly<Record<string, string>>) =>
    send(agent, world.server.port, method, path, headers);
  const wishes = await wishArbitrary(world, [...tokens.keys()]);
  await fc.assert(
    fc.asyncProperty(wishes, async ({ method, path, token, header, maxAge, primed }) => {
      const { text: shown, isGood } = tokens.get(token) ?? { text: '', isGood: false };
      const age = maxAge && { 'cache-control': 'max-age=300' };
      if (primed && method === 'GET')
        await query(method, path, { ...age, authorization: API_TOKEN });
      const { status, text } = await query(method, path, { ...age, [header]: shown });
      seen.set(status, (seen.get(status) ?? 0) + 1);
      expect(faultsOf({ path, isGood, status, text })).toStrictEqual([]);
      if (status < 400 && text.includes(`"tenant":"${OWN}"`)) rows += 1;
    }),
    { numRuns: REQUESTS },
  );
  agent.destroy();
  // The generator must not have become one that is refused at the door.
  expect(seen.get(200)).toBeGreaterThan(REQUESTS / 20);
  expect(rows).toBeGreaterThan(REQUESTS / 50);
  for (const status of [400, 401, 403, 404]) expect(seen.get(status)).toBeGreaterThan(50);
}, 300_000);

/** What is wrong with an answer. A refusal may say again what the client sent. */
function faultsOf({
  path,
  isGood,
  status,
  text,
}: Pick<Wish, 'path'> & Pick<KnownToken, 'isGood'> & Answer): readonly string[] {
  if (status >= 500) return [`it failed: ${status}: ${text}`];
  if (status >= 400) return text.length < 2000 ? [] : ['a long refusal'];
  if (!path.startsWith('/api/')) return [];
  if (!isGood) return [`let in: ${status}`];
  const names = FOREIGN.map((tenant) => `"tenant":${JSON.stringify(tenant)}`);
  return [CANARY, ...names]
    .filter((name) => text.includes(name))
    .map((name) => `reported: ${name}`);
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

interface KnownToken {
  readonly text: string;
  readonly isGood: boolean;
}

/** Every kind of token, good and bad, by what it is. */
async function tokensOf(world: TwoTenants): Promise<ReadonlyMap<string, KnownToken>> {
  const { server } = world;
  const good = (await world.mint()).token;
  const foreign = (await world.mint('kanari-globex')).token;
  const { header, claims } = claimsOf(good);
  const now = Math.floor(NOW / 1000);
  const revoked = await world.mint();
  await server.call('DELETE', `/api/v1/tenants/${OWN}/portal-tokens/${revoked.id}`, {
    token: API_TOKEN,
  });
  const [head, body, signature] = good.split('.');
  const [, foreignBody] = foreign.split('.');
  const edited = Buffer.from(JSON.stringify({ ...claims, sub: 'kanari-globex' })).toString(
    'base64url',
  );
  const unsigned = Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url');
  const stranger = newKey();
  const bad = {
    none: '',
    truncated: good.slice(0, -10),
    cut: `${head}.${body}`,
    'without a signature': `${head}.${body}.`,
    'of another body': `${head}.${foreignBody}.${signature}`,
    edited: `${head}.${edited}.${signature}`,
    unsigned: `${unsigned}.${edited}.`,
    doubled: `${good}.${good}`,
    're-signed': await forge(stranger, claims, header),
    're-signed without a key id': await forge(stranger, claims, { alg: 'EdDSA' }),
    'signed by another key of ours under this id': await forge(OLD_KEY, claims, {
      ...header,
      alg: 'ES256',
    }),
    'signed with a secret': await forge(Buffer.alloc(32, KEY), claims, { ...header, alg: 'HS256' }),
    expired: await forge(KEY, { ...claims, iat: now - 7200, exp: now - 3600 }, header),
    'not yet': await forge(KEY, { ...claims, iat: now + 7200, exp: now + 9000 }, header),
    'for somebody else': await forge(KEY, { ...claims, aud: 'meterfeed' }, header),
    'of another cluster': await forge(KEY, { ...claims, iss: 'meterfeed:["x","y"]' }, header),
    'of an earlier series': await forge(KEY, { ...claims, series: 'gone' }, header),
    'of nobody': await forge(KEY, { ...claims, sub: '' }, header),
    revoked: revoked.token,
  };
  return new Map<string, KnownToken>([
    ...Object.entries(bad).map(([name, text]) => [name, { text, isGood: false }] as const),
    ['good', { text: good, isGood: true }],
  ]);
}

/**
 * Requests around what a tenant may query: its own and others' names and ids, written in every way.
 */
async function wishArbitrary(
  { server, ids }: TwoTenants,
  tokens: readonly string[],
): Promise<fc.Arbitrary<Wish>> {
  const index = (await server.call('GET', '/')).json as {
    readonly routes: readonly { readonly path: string }[];
  };
  const tenant = fc.oneof(
    // Often enough that the test is not of refusals only.
    fc.constant(OWN),
    fc.constantFrom(OWN, ...FOREIGN),
    fc.string({ maxLength: 12 }),
    fc.constantFrom(...FOREIGN).map((name) => name.normalize('NFKC')),
  );
  const id = fc.oneof(fc.constantFrom(...ids.own), fc.constantFrom(...ids.foreign), tenant);
  const written = (text: fc.Arbitrary<string>): fc.Arbitrary<string> =>
    fc
      .tuple(text, fc.oneof(fc.constant(0), fc.nat(WRITINGS.length - 1)))
      .map(([name, way]) => WRITINGS[way]?.(name.toWellFormed()) ?? '');
  const templates = index.routes.map(({ path }) => path).filter((path) => path.startsWith('/api/'));
  const sums = [
    '/api/v1/usage',
    '/api/v1/costs',
    '/api/v1/events',
    '/api/v1/months/{month}',
    '/api/v1/gaps',
    '/api/v1/gpus',
  ];
  const place = fc
    .tuple(
      fc.oneof(
        { arbitrary: fc.constantFrom(...sums), weight: 3 },
        { arbitrary: fc.constant('/api/v1/tenants/{tenant}'), weight: 1 },
        { arbitrary: fc.constant('/api/v1/events/{id}/explain'), weight: 3 },
        {
          arbitrary: fc.constantFrom(...templates, '/portal', '/api/v1', '/api/v1/usage/'),
          weight: 2,
        },
      ),
      written(tenant),
      written(id),
    )
    .map(([template, name, event]) =>
      template
        .replace('{tenant}', () => name)
        .replace('{id}', () => event)
        .replace('{month}', '2026-11')
        .replace(/\{\w+\}/, () => name),
    );
  const groups = fc
    .array(fc.constantFrom(...KEYS), { minLength: 1, maxLength: 3 })
    .map((keys) => `group_by=${keys.join(',')}`);
  const filter = fc
    .tuple(
      fc.constantFrom(
        ...PARAMETERS,
        'tenant[]',
        'tenant%00',
        'Tenant',
        'tenant.id',
        'group_by',
        'format',
        'token',
      ),
      fc.oneof(
        written(tenant),
        fc.constantFrom(`${CANARY}-sku`, `${CANARY}-cluster`, 'csv', 'ndjson', ''),
      ),
    )
    .map(([name, value]) => `${name}=${value}`);
  const filters = fc.oneof(fc.constant([]), fc.array(filter, { maxLength: 2 }));
  const query = fc
    .tuple(fc.option(groups), filters)
    .map(([by, given]) => [...(by === null ? [] : [by]), ...given].join('&'));
  return fc.record({
    // Mostly what is answered: refusals at the door show little.
    method: fc.oneof(
      { arbitrary: fc.constant('GET'), weight: 9 },
      { arbitrary: fc.constantFrom(...OTHER_METHODS), weight: 1 },
    ),
    path: fc.tuple(place, query).map(([path, text]) => (text === '' ? path : `${path}?${text}`)),
    token: fc.oneof(
      { arbitrary: fc.constant('good'), weight: 3 },
      { arbitrary: fc.constantFrom(...tokens), weight: 1 },
    ),
    header: fc.constantFrom('authorization', 'x-meterfeed-token'),
    maxAge: fc.boolean(),
    primed: fc.boolean(),
  });
}

/** The path goes out as it is written; a client library would tidy it. */
function send(
  agent: Agent,
  port: number,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(
      { agent, host: '127.0.0.1', port, method, path, headers },
      (answer) => {
        const pieces: Buffer[] = [];
        answer.on('data', (piece: Buffer) => pieces.push(piece));
        answer.once('end', () =>
          resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(pieces).toString() }),
        );
        answer.once('error', reject);
      },
    );
    sent.once('error', reject);
    sent.end();
  });
}
