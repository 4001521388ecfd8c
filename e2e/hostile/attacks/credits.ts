import { isRecord } from '../../../operator/model/is-record.ts';
import type { Random } from '../../faults/random.ts';
import { mutated } from './mutate.ts';
import { again, query, type PeerAnswer } from './peer-requests.ts';
import type { TokenMeans } from './tenant-tokens.ts';
import { expandMarks, hostileText } from './values.ts';

/** What can be done to prepaid balances (docs/how-to/budgets.md#credits). */
export interface CreditMeans extends TokenMeans {
  /** Of a shop that may credit, and passes on what tenants choose. It credits the hostile tenant only. */
  readonly shopToken: string;
  /** What each credit was that has been acknowledged, over all runs and restarts. */
  readonly credited: Map<string, string>;
}

export interface CreditAttack {
  readonly name: string;
  make(random: Random): (means: CreditMeans) => Promise<void>;
}

export const CREDIT_ATTACKS: readonly CreditAttack[] = [
  {
    name: 'credits without the right to',
    make: (random) => (means) =>
      again(means, 5, async () => {
        const { good, bad } = means.tokens;
        const token = random.pick([good, means.ingestToken, 'x', '', ...Object.values(bad)]);
        const tenant = random.pick([means.tenant, ...means.others]);
        const { key, amount } = creditOf(random.between(0, 99));
        const credit = { key, amount, metric: 'tenant_cpu_core_hours' };
        const answer = await post(means, tenant, token, JSON.stringify(credit));
        if (answer?.status === 200) means.misbilled(`${tenant} was credited without the right to`);
      }),
  },
  {
    name: 'the same credit many times at once',
    make: (random) => {
      const atOnce = random.pick([2, 16, 60]);
      return (means) =>
        again(means, 20, async () => {
          const credit = creditOf(random.between(0, 99));
          await Promise.all(Array.from({ length: atOnce }, () => credited(means, credit)));
        });
    },
  },
  {
    name: 'the same key for other credits',
    make: (random) => (means) =>
      again(means, 20, async () => {
        const credit = creditOf(random.between(0, 99));
        const others = [
          { ...credit, amount: String(random.between(1, 9)) },
          { ...credit, amount: '-1' },
          { ...credit, amount: `${credit.amount}.0` },
          { ...credit, currency: 'USD' },
          { ...credit, currency: undefined, metric: 'tenant_gpu_hours' },
          { ...credit, note: 'another' },
          { ...credit, reference: credit.key },
        ];
        await Promise.all([credit, ...others].map((each) => credited(means, each)));
      }),
  },
  {
    name: 'amounts that are none',
    make: (random) => (means) =>
      again(means, 10, () => {
        const amount = random.pick<unknown>([...AMOUNTS, hostileText(random)]);
        return credited(means, { ...creditOf(100 + random.between(0, 19)), amount });
      }),
  },
  {
    name: 'keys that are long, or stand for others',
    make: (random) => (means) =>
      again(means, 10, () => {
        const key = random.pick(KEYS);
        return credited(means, { ...creditOf(0), key });
      }),
  },
  {
    name: 'credits that are mutated',
    make: (random) => (means) =>
      again(means, 20, () => {
        const changed = mutated({ ...creditOf(120 + random.between(0, 9)), note: 'a' }, random);
        const body = expandMarks(JSON.stringify(changed)).slice(0, 1_000_000);
        return post(means, means.tenant, means.shopToken, body);
      }),
  },
];

/** Whatever is sent for one. */
interface Credit {
  readonly key: unknown;
  readonly amount: unknown;
  readonly currency?: unknown;
  readonly metric?: unknown;
  readonly note?: unknown;
  readonly reference?: unknown;
}

/** Few enough that the list shows all of them, and every run meets those of the others. */
function creditOf(number: number) {
  return { key: `pi_${number}`, amount: String(1 + (number % 7)), currency: 'EUR' };
}

const AMOUNTS: readonly unknown[] = [
  '1e30',
  '1000000000000',
  '999999999999.999999999',
  '-999999999999.999999999',
  '0.000000001',
  '0.0000000001',
  '0',
  '-0',
  '0.000000000',
  '9'.repeat(400),
  `0.${'0'.repeat(2_000)}1`,
  ' 1',
  '+1',
  '1,5',
  '٣',
  'NaN',
  'Infinity',
  1,
  1e308,
  -1,
  null,
  ['1'],
  { toString: '1' },
];

const KEYS: readonly string[] = [
  'k'.repeat(128),
  'k'.repeat(129),
  'k'.repeat(10_240),
  'é'.repeat(128),
  '😀'.repeat(64),
  '/',
  '..',
  '../tenant-honest-a-honest-a/pi_1',
  '%2e%2e%2f',
  '%',
  ' ',
  '',
  'a\u0000b',
  'a\nb',
  '\ud800',
  '__proto__',
  'toString',
  '=1+1',
];

/** Credits as the shop does, and holds what is answered against what was answered before. */
async function credited(means: CreditMeans, credit: Credit): Promise<void> {
  const answer = await post(means, means.tenant, means.shopToken, JSON.stringify(credit));
  if (answer?.status !== 200) return;
  const reported = answerOf(answer);
  if (reported === undefined) return;
  const key = JSON.stringify(credit.key);
  const before = means.credited.get(key);
  means.credited.set(key, before ?? reported);
  if (before !== undefined && before !== reported) {
    means.misbilled(`credit ${key} was ${before}, and is ${reported}`);
  }
}

/** The credit that was acknowledged; undefined where the answer was cut off. */
function answerOf({ body }: PeerAnswer): string | undefined {
  try {
    const reported: unknown = JSON.parse(body);
    if (!isRecord(reported)) return undefined;
    const { amount, currency, metric, at } = reported;
    return JSON.stringify([amount, currency ?? metric, at]);
  } catch {
    return undefined;
  }
}

function post(
  means: CreditMeans,
  tenant: string,
  token: string,
  body: string,
): Promise<PeerAnswer | undefined> {
  return query(means, {
    method: 'POST',
    path: `/api/v1/tenants/${encodeURIComponent(tenant)}/credits`,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body,
  });
}
