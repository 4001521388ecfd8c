import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MONTH_VENDORS } from '../months/month-plan.ts';
import type { Plan } from './plan.ts';
import { NOTHING_OMITTED, type Omissions, startSuite, type Suite } from './run-suite.ts';
import { planOf, SCENARIOS } from './scenarios.ts';

const RUN_MS = 30_000;
/** Classes in which little is left to chance, or that take long, have one run. */
const ONCE = /^(death at|months of) /;
const RUNS = SCENARIOS.map(({ name }, index) => ({
  name,
  seeds: [index, ...(ONCE.test(name) ? [] : [index + SCENARIOS.length])],
}));

/** What a run of a class must have come through. */
function endOf(scenario: string): RegExp {
  const step = /^death at (.+)$/.exec(scenario)?.[1];
  return step === undefined ? /completed/ : new RegExp(`died ${step}|killed`);
}

function useSuite(omissions: Omissions): (plan: Plan) => ReturnType<Suite['run']> {
  let suite: Suite;
  beforeAll(() => {
    suite = startSuite(omissions);
  });
  afterAll(() => suite.close());
  return (plan) => suite.run(plan);
}

describe('nothing is lost, billed twice or silently wrong after', () => {
  const run = useSuite(NOTHING_OMITTED);

  test.each(RUNS)(
    '$name',
    async ({ name, seeds }) => {
      for (const seed of seeds) {
        const { ends, ...report } = await run(planOf(seed));
        expect(report, `npm run faults -- --seed ${seed} --runs 1`).toMatchObject({
          lost: 0,
          duplicated: 0,
          undetectedCorruption: 0,
          invoiceMismatch: 0,
          wrong: [],
        });
        expect(report.events).toBeGreaterThan(0);
        expect(ends.join('\n')).toMatch(endOf(name));
      }
    },
    2 * RUN_MS,
  );
});

test('a thousand runs have months at every billing system, late usage billed every way', () => {
  const drawn = new Set<string>();
  for (let seed = 1; seed <= 1_000; seed += 1) {
    const { month } = planOf(seed);
    if (month === undefined) continue;
    drawn.add(`${month.vendor}: ${month.late}`);
  }
  for (const vendor of MONTH_VENDORS) {
    const billsSeparate = /^(lago|stripe)/.test(vendor);
    const late = billsSeparate ? ['send', 'next', 'credit', 'hold'] : ['send'];
    for (const how of late) expect(drawn).toContain(`${vendor}: ${how}`);
  }
});

/** The first plans of a class. */
function plansOf(scenario: string, count: number): Plan[] {
  const first = SCENARIOS.findIndex(({ name }) => name === scenario);
  return Array.from({ length: count }, (_, index) => planOf(first + index * SCENARIOS.length));
}

describe('the harness notices', () => {
  const runWithoutSync = useSuite({ ...NOTHING_OMITTED, withoutSync: true });
  const runWithoutLine = useSuite({ ...NOTHING_OMITTED, withoutLine: true });
  const runWithoutInFlight = useSuite({ ...NOTHING_OMITTED, withoutInFlight: true });

  test(
    'that events are lost in power cuts when writes are not synced',
    async () => {
      let lost = 0;
      for (const plan of plansOf('power cut', 3)) lost += (await runWithoutSync(plan)).lost;
      expect(lost).toBeGreaterThan(0);
    },
    3 * RUN_MS,
  );

  test(
    'a line that is missing on an invoice',
    async () => {
      let mismatch = 0;
      for (const vendor of ['lago', 'stripe flexible', 'metronome']) {
        for (const plan of plansOf(`months of invoices: ${vendor}`, 1)) {
          mismatch += (await runWithoutLine(plan)).invoiceMismatch > 0 ? 1 : 0;
        }
      }
      expect(mismatch).toBe(3);
    },
    3 * RUN_MS,
  );

  test(
    'that events are billed twice when what is in flight is not on record',
    async () => {
      let duplicated = 0;
      for (const plan of plansOf('lost answer, crash, and days of silence', 5)) {
        duplicated += (await runWithoutInFlight(plan)).duplicated;
      }
      expect(duplicated).toBeGreaterThan(0);
    },
    5 * RUN_MS,
  );
});
