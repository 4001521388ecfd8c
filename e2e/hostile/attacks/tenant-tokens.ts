import type { Random } from '../../faults/random.ts';
import { forgeToken } from './forged-tokens.ts';
import { again, query, type PeerAnswer, type PeerMeans } from './peer-requests.ts';
import { hostileText, NAMES } from './values.ts';

/** What a tenant has that may read its own usage at the portal, and tries with it (docs/how-to/portal.md). */
export interface TokenMeans extends PeerMeans {
  readonly tenant: string;
  /** Names that no answer with the tenant's token may hold. */
  readonly others: readonly string[];
  readonly tokens: TenantTokens;
  /** Told of what must not have been answered. */
  readonly leaked: (what: string) => void;
}

/** Tokens that the operator's own key has signed, all for the same tenant. */
export interface TenantTokens {
  readonly good: string;
  /** Those that are good no more, or never were, by the reason. */
  readonly bad: Readonly<Record<string, string>>;
}

export interface TokenAttack {
  readonly name: string;
  make(random: Random): (means: TokenMeans) => Promise<void>;
}

export const TOKEN_ATTACKS: readonly TokenAttack[] = [
  {
    name: 'an own token with names of others',
    make: (random) => (means) =>
      together(means, 8, async () => {
        const name = random.pick([means.tenant, ...means.others, hostileText(random)]);
        const path = `${pathFor(random, name.slice(0, 400))}${queryFor(random, means)}`;
        const method = random.chance(0.9) ? 'GET' : random.pick(METHODS);
        const age = random.chance(0.3) && { 'cache-control': 'max-age=300' };
        const headers = { ...withToken(random, means.tokens.good), ...age };
        const answer = await query(means, { method, path, headers, body: '' });
        evaluate(means, answer, path);
        if (isGiven(answer) && method !== 'GET' && method !== 'HEAD') {
          means.leaked(`a tenant’s token has changed something: ${method} ${path}`);
        }
      }),
  },
  {
    name: 'an own token that would make and end tokens',
    make: (random) => (means) =>
      again(means, 10, async () => {
        const tenant = encodeURIComponent(random.pick([means.tenant, ...means.others]));
        const path = `/api/v1/tenants/${tenant}/portal-tokens${random.pick(['', `/${UUID}`])}`;
        const method = random.pick(['POST', 'DELETE']);
        const type = { 'content-type': 'application/json' };
        const headers = { ...withToken(random, means.tokens.good), ...type };
        const answer = await query(means, { method, path, headers, body: '{"valid_for":"24h"}' });
        if (isGiven(answer)) means.leaked(`a tenant’s token was enough for ${method} ${path}`);
      }),
  },
  {
    name: 'forged tokens',
    make: (random) => (means) =>
      together(means, 4, async () => {
        const { how, text } = forgeToken(random, means.tokens.good, means.others);
        await tryToken(means, random, how, text);
      }),
  },
  {
    name: 'tokens that are good no more',
    make: (random) => (means) =>
      again(means, 20, async () => {
        const [how, text] = random.pick(Object.entries(means.tokens.bad));
        await tryToken(means, random, how, text);
      }),
  },
  {
    name: 'a flood of tokens',
    make: (random) => {
      const atOnce = random.pick([20, 60, 200]);
      const isForged = random.chance(0.5);
      return (means) =>
        again(means, 5, async () => {
          const { good } = means.tokens;
          // The key is looked up and the signature checked of each: only its end is wrong.
          const texts = Array.from({ length: atOnce }, (_, index) =>
            isForged ? `${good.slice(0, -6)}${String(100_000 + index)}` : good,
          );
          await Promise.all(
            texts.map((text) =>
              isForged
                ? tryToken(means, random, 'another end', text)
                : query(means, getOf(random.pick(DEAR), withToken(random, text))),
            ),
          );
        });
    },
  },
];

/** Several that ask one thing after the other: one alone asks little of an operator that is busy. */
async function together(means: TokenMeans, count: number, act: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: count }, () => again(means, 2, act)));
}

const METHODS = ['HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
const UUID = '00000000-0000-4000-8000-000000000000';

/** What a tenant may read; `{}` stands for a name or an id. */
const OPEN: readonly string[] = [
  '/api/v1/usage',
  '/api/v1/costs',
  '/api/v1/events',
  '/api/v1/gaps',
  '/api/v1/months/2026-11',
  '/api/v1/events/{}/explain',
  '/api/v1/tenants/{}',
];

const CLOSED: readonly string[] = [
  '/api/v1/tenants/{}/credits',
  '/api/v1/tenants/{}/portal-tokens',
  '/api/v1/tenants',
  '/api/v1/status',
  '/api/v1/windows',
  '/api/v1/destinations',
  '/api/v1/destinations/webhook/dead-letters',
  '/api/v1/billing-states',
  '/api/v1/held-tenants',
  '/api/v1/corrections',
  '/api/v1/reconcile',
  '/api/v1/ledger/verify',
  '/api/v1/{}',
  '/portal/../api/v1/tenants/{}',
  '/portal/files/..%2f..%2fapi/v1/tenants/{}',
];

/** What costs the operator the most. */
const DEAR: readonly string[] = [
  '/api/v1/usage?group_by=hour,sku,tenant_cluster',
  '/api/v1/costs?group_by=day,sku',
  '/api/v1/events',
  '/api/v1/events?format=csv',
  '/api/v1/months/2026-11',
];

const GROUPS = ['tenant', 'project', 'tenant_cluster', 'sku', 'region', 'day', 'hour', 'source'];
/** Those first that are taken: whatever is refused at the door tells little. */
const FILTERS = ['sku', 'project', 'region', 'metric'];
const PARAMETERS = ['tenant[]', 'Tenant', 'tenant%00', 'tenant_cluster', 'token', 'from', 'limit'];

/** Ways to write a name in an address, right and wrong. */
const WRITINGS: readonly ((text: string) => string)[] = [
  (text) => encodeURIComponent(encodeURIComponent(text)),
  (text) => [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  (text) => encodeURIComponent(text).toUpperCase(),
  (text) => `${encodeURIComponent(text)}%00`,
  (text) => `..%2f${encodeURIComponent(text)}`,
  (text) => `.%2e/${encodeURIComponent(text)}`,
  (text) => `${encodeURIComponent(text)}%`,
  (text) => `${encodeURIComponent(text)}%c0%af`,
  (text) => `${encodeURIComponent(text)};x=1`,
  (text) => `${encodeURIComponent(text)},${encodeURIComponent(text)}`,
];

function pathFor(random: Random, name: string): string {
  const template = random.pick(random.chance(0.7) ? OPEN : CLOSED);
  return template.replace('{}', () => written(random, name));
}

function queryFor(random: Random, { tenant, others }: TokenMeans): string {
  const value = (): string =>
    written(random, random.pick(random.chance(0.7) ? [tenant, ...others] : NAMES));
  const parameters: string[] = [];
  if (random.chance(0.5)) parameters.push(`tenant=${value()}`);
  if (random.chance(0.2)) parameters.push(`${random.pick(FILTERS)}=${value()}`);
  if (random.chance(0.1)) parameters.push(`${random.pick(PARAMETERS)}=${value()}`);
  if (random.chance(0.5)) {
    parameters.push(`group_by=${random.pick(GROUPS)},${random.pick(GROUPS)}`);
  }
  return parameters.length === 0 ? '' : `?${parameters.join('&')}`;
}

function written(random: Random, text: string): string {
  const name = text.toWellFormed();
  return random.chance(0.5) ? encodeURIComponent(name) : random.pick(WRITINGS)(name);
}

function withToken(random: Random, token: string): Readonly<Record<string, string>> {
  return random.chance(0.8) ? { authorization: `Bearer ${token}` } : { 'x-meterfeed-token': token };
}

function getOf(path: string, headers: Readonly<Record<string, string>>) {
  return { method: 'GET', path, headers, body: '' };
}

/** Asks for something that needs a token, with one that is not good. */
async function tryToken(means: TokenMeans, random: Random, how: string, text: string) {
  const path = random.pick([
    '/api/v1/usage',
    '/api/v1/catalog',
    `/api/v1/tenants/${encodeURIComponent(random.pick([means.tenant, ...means.others]))}`,
  ]);
  const answer = await query(means, getOf(path, withToken(random, text)));
  if (isGiven(answer)) means.leaked(`let in to ${path} with a token: ${how}`);
}

/** What is told with a tenant's token is told of that tenant; a refusal may say again what it was asked. */
function evaluate(
  { others, leaked }: TokenMeans,
  answer: PeerAnswer | undefined,
  path: string,
): void {
  if (answer === undefined || !isGiven(answer) || !path.startsWith('/api/')) return;
  const reported = others.find((other) => answer.body.includes(other));
  if (reported !== undefined) leaked(`${reported} in the answer to ${path} with a tenant’s token`);
}

function isGiven(answer: PeerAnswer | undefined): boolean {
  return answer !== undefined && answer.status >= 200 && answer.status < 300;
}
