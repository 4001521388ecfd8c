import { expect, test } from 'vitest';
import { Agenda } from './agenda.ts';
import { Docket, type DocketOptions } from './docket.ts';
import type { KeptBudget } from './make-accounts.ts';
import { BudgetAccount } from './account.ts';

const COUNTS = { kind: 'metric', metric: 'tenant_gpu_hours' } as const;
const PERIOD = { from: 0, to: Number.POSITIVE_INFINITY };

function keptOf(tenant: string): KeptBudget {
  const budget = {
    counts: COUNTS,
    amount: 1n,
    period: { kind: 'month' },
    thresholds: [],
    atLimit: 'warn',
  } as const;
  const options = { tenant, counts: COUNTS, period: PERIOD, pricesOf: () => undefined };
  return { budget, period: PERIOD, account: new BudgetAccount(options), madeOf: 0 };
}

/** Tenants by the moments at which something follows; each takes so long to measure that a turn is over after two. */
function createScene(moments: Readonly<Record<string, number>>) {
  let now = 0;
  const agenda = new Agenda();
  for (const [tenant, at] of Object.entries(moments)) agenda.set(tenant, at);
  const measured: string[] = [];
  const judged: string[][] = [];
  const scene = {
    fails: false,
    listed: true,
    measured,
    judged,
    pass: (ms: number) => {
      now += ms;
    },
  };
  const options: DocketOptions = {
    accounts: {
      kept: new Map(Object.keys(moments).map((tenant) => [tenant, keptOf(tenant)])),
      areWhole: true,
    },
    live: {
      measure: (tenant, isWhole) => {
        now += 13;
        measured.push(isWhole ? `${tenant} as a whole` : tenant);
        return scene.listed;
      },
      tell: () => undefined,
    },
    gate: {
      take: (at) => agenda.take(at),
      momentOf: (tenant) => agenda.momentOf(tenant),
      stateOf: () => 'active',
      judge: async ({ tenants }) => {
        if (scene.fails) throw new Error('the volume is away');
        judged.push([...tenants]);
      },
    },
    clock: { now: () => now, monotonic: () => now, sleep: async () => undefined },
  };
  return { ...scene, scene, docket: new Docket(options) };
}

/** All turns that there is work for. */
async function judgeAll(docket: Docket): Promise<void> {
  while (!(await docket.judge())) await new Promise(setImmediate);
}

test('whoever is nearest to a limit is judged first, however many others have changed', async () => {
  const far = Object.fromEntries(
    Array.from({ length: 40 }, (_, index) => [`far-${index}`, 1e9 + index]),
  );
  const { docket, judged } = createScene({ ...far, near: 5_000, nearest: 4_000 });
  docket.note([...Object.keys(far), 'near', 'nearest']);
  await docket.judge();
  expect(judged[0]).toStrictEqual(['nearest', 'near']);
  await judgeAll(docket);
  expect(judged.flat()).toHaveLength(42);
});

test('whoever is due is measured as a whole and judged before all others, also where its turn comes later', async () => {
  const { docket, measured, pass } = createScene({ a: 10, b: 11, c: 12, d: 5_000 });
  docket.note(['d']);
  pass(100);
  await judgeAll(docket);
  const due = ['a', 'b', 'c'].map((tenant) => `${tenant} as a whole`);
  expect(measured).toStrictEqual([...due, 'd']);
});

test('nobody is forgotten where judging fails, or where something is not known yet', async () => {
  const { docket, scene, judged, pass } = createScene({ a: 5_000 });
  docket.note(['a']);
  scene.fails = true;
  await expect(docket.judge()).rejects.toThrow('away');
  scene.fails = false;
  scene.listed = false;
  await docket.judge();
  expect(judged).toStrictEqual([['a']]);
  expect(docket.isWaiting).toBe(true);
  await docket.judge();
  scene.listed = true;
  pass(1_000);
  await docket.judge();
  expect(docket.isWaiting).toBe(false);
  expect(judged.length).toBeGreaterThan(1);
});

test('who is far from everything is not looked at for what may be more, who is near or not known is', async () => {
  const { docket, judged } = createScene({ near: 500_000, far: 700_000 });
  expect(docket.noteNear(['far'])).toBe(false);
  expect(docket.noteNear(['far', 'near', 'unknown'])).toBe(true);
  await judgeAll(docket);
  expect(judged).toStrictEqual([['near']]);
});
