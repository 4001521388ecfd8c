import { describe, expect, test } from 'vitest';
import { G, H, type HandAct, startLago, startMetronome, startStripe } from './vendors.ts';
import { time } from '../fakes/vectors.ts';
import { type Act, liveMonth, type Month, type Outcome } from './vector-run.ts';

type StripeMode = 'flexible' | 'classic';
const OTHERWISE = 'read otherwise';

/**
 * A tenant on plan `a` since 1 January 2027; G costs 2 there and 3 on `b`. What its invoices come to, after
 * `!` the conditions that are left: usage that is on none is told by them, and nothing else is.
 */
interface Vector {
  readonly month: Month;
  readonly lago?: string;
  /** With drafts that take in what comes within three days; as without them unless it is said. */
  readonly grace?: string;
  readonly stripe?: string;
  /** Where the mode, or the other reading of what is uncertain, makes another invoice of it. */
  readonly stripeIn?: Partial<Record<StripeMode | `${StripeMode}, ${typeof OTHERWISE}`, string>>;
  readonly metronome?: string;
  /** Where statements of the past are generated. */
  readonly metronomePast?: string;
  /** What is told until somebody mends it. */
  readonly meanwhile?: string;
  /** In cents, of Lago's plans. */
  readonly baseFees?: readonly [a: number, b: number];
  /** Lago's prices stand in charges beside those of 0 that bootstrapping has made. */
  readonly chargesByHand?: boolean;
  /** In cents, at Lago: what the charge of G and the plan cost a month at the least, and when usage is invoiced at once. */
  readonly minimums?: readonly [charge: number, plan: number];
  readonly usageThreshold?: number;
  /** How long drafts of Stripe stay, in hours. */
  readonly draftHours?: number;
}

const toB = { do: 'plan', plan: 'b' } as const;
const toBAtPeriodEnd = { ...toB, mode: 'period-end' } as const;
const backToA = { do: 'plan', plan: 'a' } as const;
const hand = (act: HandAct): Act => ({ do: 'hand', act });
const SWAPPED = '05T00 10, 20T00 5';

const VECTORS: Readonly<Record<string, Vector>> = {
  '1 usage of a month': {
    month: { usage: '05T00 10, 20T00 5' },
    lago: 'Jan 30',
    stripe: 'Jan 30',
    metronome: 'Jan/a 30',
  },
  '2 the last minute of a month and the first of the next': {
    month: { usage: '31T23:59 1, Feb 01T00:00 2' },
    lago: 'Jan 2, Feb 4',
    stripe: 'Jan 2, Feb 4',
    metronome: 'Jan/a 2, Feb/a 4',
  },
  '3 usage half an hour after its month': {
    month: { usage: '31T23 4 @Feb 01T00:30' },
    lago: 'never 4 ! InvoiceMismatch',
    grace: 'Jan 8',
    stripe: 'Jan 8',
    metronome: 'Jan/a 8',
  },
  '4 three hours after it': {
    month: { usage: '31T23 4 @Feb 01T03:00' },
    lago: 'never 4 ! InvoiceMismatch',
    grace: 'Jan 8',
    stripe: 'never 4 ! InvoiceMismatch',
    metronome: 'Jan/a 8',
  },
  '5 thirty hours after it': {
    month: { usage: '31T23 4 @Feb 02T06:00' },
    lago: 'never 4 ! InvoiceMismatch',
    grace: 'Jan 8',
    stripe: 'never 4 ! InvoiceMismatch',
    metronome: 'never 4 ! InvoiceMismatch',
  },
  '6 the same with drafts of 72 hours': {
    month: { usage: '31T23 4 @Feb 02T06:00' },
    draftHours: 72,
    stripe: 'Jan 8',
  },
  '7, 8 and 10 a change of plan': {
    month: { usage: SWAPPED, acts: [['16T10', toB]] },
    lago: '(16) 20, Jan 15',
    stripe: '(16) 20, Jan 15',
    metronome: 'Jan/a 20, Jan/b 15',
  },
  '9 a change of plan, and a late hour': {
    month: { usage: `${SWAPPED}, 31T23 1 @Feb 01T00:30`, acts: [['16T10', toB]] },
    lago: '(16) 20, Jan 15, never 1 ! InvoiceMismatch',
    grace: '(16) 20, Jan 18',
    stripe: '(16) 20, Jan 18',
    metronome: 'Jan/a 20, Jan/b 18',
  },
  '11 a window that is under way at a change': {
    month: { usage: '16T10:00:00 1 @16T10:01:30', acts: [['16T10:00:30', toB]] },
    lago: '(16) 2',
    stripe: '(16) 2',
    metronome: 'Jan/a 2',
  },
  'usage of the old plan that comes hours after a change': {
    month: { usage: '05T00 10, 16T09 2 @16T14, 20T00 5', acts: [['16T10', toB]] },
    lago: '(16) 20, Jan 21',
    grace: '(16) 24, Jan 15',
  },
  'usage of the old plan that comes after its last invoice is final': {
    month: { usage: '05T00 10, 16T09 2 @19T14, 20T00 5', acts: [['16T10', toB]] },
    lago: '(16) 20, Jan 21',
  },
  '12 usage after a change': {
    month: { usage: '16T10:30 4', acts: [['16T10:05', toB]] },
    lago: 'Jan 12',
    stripe: 'Jan 12',
    metronome: 'Jan/a 8',
  },
  '13 a change at the end of the period': {
    month: {
      usage: '05T00 15, Feb 01T00:05 1, Feb 02T00 3',
      acts: [['16T00', toBAtPeriodEnd]],
    },
    baseFees: [10_000, 0],
    lago: 'Jan 100+30, Feb 12',
    stripe: 'Jan 30, Feb 12',
    metronome: 'Jan/a 30, Feb/b 12',
  },
  '13 with usage between the wish and the end of the period': {
    month: {
      usage: '05T00 15, 20T00 2, Feb 01T00:05 1, Feb 02T00 3',
      acts: [['16T00', toBAtPeriodEnd]],
    },
    baseFees: [0, 10_000],
    lago: 'Jan 34, Feb 100+12',
    stripe: 'Jan 34, Feb 12',
    metronome: 'Jan/a 34, Feb/b 12',
  },
  '14 and 15 a change that is undone': {
    month: {
      usage: 'Feb 02T00 3',
      acts: [
        ['16T00', toBAtPeriodEnd],
        ['20T00', backToA],
      ],
    },
    baseFees: [10_000, 0],
    lago: 'Jan 100, Feb 100+6',
    stripe: 'Feb 6',
    metronome: 'Feb/a 6',
  },
  '16 a change at the end of the period between equal base fees': {
    month: { usage: 'Feb 01T00:00 2, Feb 01T01 3', acts: [['16T00', toBAtPeriodEnd]] },
    lago: 'Feb 15',
    stripe: 'Feb 15',
    metronome: 'Feb/b 15',
  },
  '17 a change before the run of the billing day': {
    month: { usage: '05T00 15', acts: [['Feb 01T00:05', toB]] },
    lago: 'Jan 30',
    stripe: 'Jan 30',
    metronome: 'Jan/a 30',
  },
  '18 and 19 a price that comes after the usage': {
    month: {
      usage: '10T00 6, 20T00 4',
      metric: H,
      acts: [['15T00', { do: 'price', metric: H, each: 5, from: '15T00' }]],
    },
    meanwhile: 'UnpricedUsage',
    lago: 'Jan 50',
    stripe: 'Jan 50',
    stripeIn: { 'flexible, read otherwise': '(20) 50', 'classic, read otherwise': '(20) 50' },
    metronome: 'Jan/a 20, never 6 ! InvoiceMismatch',
  },
  '18 a price as of the beginning of the month': {
    month: {
      usage: '10T00 6, 20T00 4',
      metric: H,
      acts: [['15T00', { do: 'price', metric: H, each: 5, from: '01T00' }]],
    },
    meanwhile: 'UnpricedUsage',
    metronome: 'Jan/a 50',
  },
  '20 a price that changes': {
    month: {
      usage: '10T00 10, 15T00:10 0, 20T00 5',
      acts: [['15T00', { do: 'price', metric: G, each: 2.5, from: '15T00' }]],
    },
    lago: 'Jan 37.5',
    stripe: '(15) 20, Jan 12.5',
    metronome: 'Jan/a 20+12.5',
  },
  '21 and 22 a tenant that goes': {
    month: { usage: '05T00 10, 20T11 1', acts: [['20T12', { do: 'leave' }]] },
    lago: '(20) 22',
    stripe: 'Jan 22',
    metronome: 'Jan/a 22',
  },
  '23 and comes back': {
    month: {
      usage: '05T00 10, 20T11 1, 26T00 3',
      acts: [
        ['20T12', { do: 'leave' }],
        ['25T00', { do: 'return' }],
      ],
    },
    lago: '(20) 22, Jan 6',
    stripe: 'Jan 28',
    metronome: 'Jan/a 22, Jan/a 6',
  },
  '24 on the same day': {
    month: {
      usage: '05T00 10, 20T11 1, 20T16 2',
      acts: [
        ['20T12', { do: 'leave' }],
        ['20T15', { do: 'return' }],
      ],
    },
    lago: '(20) 22, Jan 4',
    stripe: 'Jan 26',
    metronome: 'Jan/a 22, Jan/a 4',
  },
  '25 usage from before the month in which it comes first': {
    month: { usage: '30T00 2 @Feb 03T11:00, Feb 02T00 5 @Feb 03T11:00', since: '30T00' },
    lago: 'Feb 10 ! DeadLetters',
    stripe: '(Feb 3) 4, Feb 10',
    stripeIn: {
      'flexible, read otherwise': '(Feb 3) 4+10',
      classic: 'Jan 14',
      'classic, read otherwise': '(Feb 3) 14',
    },
    metronome: 'Feb/a 10, never 2 ! InvoiceMismatch',
    metronomePast: 'Jan/a 4, Feb/a 10',
  },
  'masked: charges added beside those of 0, and usage that comes late': {
    month: { usage: '05T00 15, 20T00 15 @Feb 01T03:00' },
    chargesByHand: true,
    lago: 'Jan 30, never 15 ! InvoiceMismatch',
    grace: 'Jan 60',
  },
  'progressive billing': {
    month: { usage: '05T00 10, 20T00 5' },
    usageThreshold: 1_500,
    lago: '(5) 20, (20) 30, Jan 30',
  },
  'progressive billing, and usage that comes late': {
    month: { usage: '05T00 10, 20T00 5 @Feb 01T03:00' },
    usageThreshold: 1_500,
    lago: '(5) 20, Jan 20, never 5 ! InvoiceMismatch',
    grace: '(5) 20, Jan 30',
  },
  'minimums of a charge and of a plan': {
    month: { usage: '05T00 10' },
    minimums: [10_000, 20_000],
    lago: 'Jan 20+80+100, Feb 100+100',
  },
  'a change at the end of the period that is wanted now after all': {
    month: {
      usage: '05T00 10, 20T11:00:00 4, 25T00 5, Feb 02T00 1',
      acts: [
        ['16T00', toBAtPeriodEnd],
        ['20T12', toB],
      ],
    },
    lago: '(20) 28, Jan 15, Feb 3',
    stripe: '(20) 28, Jan 15, Feb 3',
    metronome: 'Jan/a 28, Jan/b 15, Feb/b 3',
  },
  'a contract that somebody ends': {
    month: {
      usage: '05T00 10, 16T11 2, 20T00 5',
      acts: [['16T10', hand({ hand: 'end', at: time('16T10') })]],
    },
    metronome: 'Jan/a 20, Jan/a 14',
  },
  'a contract that somebody archives': {
    month: {
      usage: '05T00 10, Feb 05T00 4, Feb 10T11 2, Feb 20T00 5',
      acts: [['Feb 10T10', hand({ hand: 'archive' })]],
    },
    metronome: 'Jan/a 20, Feb/a 22',
  },
  'a contract that somebody makes beside ours': {
    month: {
      usage: '05T00 10, 16T11 2, 20T00 5',
      acts: [['16T10', hand({ hand: 'sign', card: 'b', from: time('16T10') })]],
    },
    metronome: 'Jan/a 20, Jan/b 21',
  },
  'a contract that somebody makes from the same hour on': {
    month: {
      usage: '05T00 10, 16T11 2, 20T00 5',
      acts: [['16T10', hand({ hand: 'sign', card: 'b', from: time('01T00') })]],
    },
    metronome: 'Jan/b 51',
  },
  'a contract that somebody makes when nothing is used any more': {
    month: {
      usage: '05T00 10, 16T11 2',
      acts: [['17T10', hand({ hand: 'sign', card: 'b', from: time('16T10') })]],
    },
    metronome: 'Jan/a 20, Jan/b 6',
  },
  'a credit for a part of a month and of the next': {
    month: {
      usage: '05T00 10, Feb 05T00 4',
      acts: [['03T00', hand({ hand: 'credit', cents: 2_400 })]],
    },
    metronome: 'Jan/a 20, Feb/a 8',
  },
};

/** What is uncertain at Stripe: as the documentation is read as a rule, and the other way round. */
const STRIPE_RULES = {
  'as it is read as a rule': {},
  [OTHERWISE]: {
    finalInvoiceHasGrace: false,
    backdatedUsage: 'first-invoice',
    cancelNeedsProrate: true,
    sumsLagSeconds: 300,
  },
} as const;

const textOf = ({ bill, reported }: Outcome): string =>
  [bill, ...reported.map((type) => `! ${type}`)].join(' ');

/** Whatever is on no invoice, or on two, is told to the unit, and nothing else was told at any time. */
function expectReported(
  { missing, mismatch, reported, everReported }: Outcome,
  meanwhile?: string,
): void {
  expect(mismatch).toBeCloseTo(missing, 9);
  const expected = new Set([...reported, ...(meanwhile === undefined ? [] : [meanwhile])]);
  expect(everReported).toStrictEqual(expected);
}

/** The vectors that ask something of a vendor. */
function of(vendor: 'lago' | 'stripe' | 'metronome') {
  return Object.entries(VECTORS).flatMap(([name, vector]) => {
    const bill = vector[vendor];
    return bill === undefined ? [] : [{ name, vector, bill }];
  });
}

describe('Lago', () => {
  test.each(of('lago'))('$name', async ({ vector, bill }) => {
    const outcome = await liveMonth(await startLago(vector), vector.month);
    expect(textOf(outcome)).toBe(bill);
    expectReported(outcome, vector.meanwhile);
  });

  test.each(of('lago'))('with a grace of three days: $name', async ({ vector, bill }) => {
    const rules = { graceDays: 3 };
    const outcome = await liveMonth(await startLago({ ...vector, rules }), vector.month);
    expect(textOf(outcome)).toBe(vector.grace ?? bill);
    expectReported(outcome, vector.meanwhile);
  });

  test.each(of('lago'))('that stores late, limits calls and is prepaid: $name', async (given) => {
    const { vector, bill } = given;
    const rules = {
      ingestMs: 20_000,
      usageCacheMs: 60_000,
      callsPerSecond: 15,
      walletCents: 1_000,
    };
    const outcome = await liveMonth(await startLago({ ...vector, rules }), vector.month);
    expect(textOf(outcome)).toBe(bill);
    expectReported(outcome, vector.meanwhile);
  });
});

describe.each(['flexible', 'classic'] as const)('Stripe in mode %s', (mode) => {
  describe.each(Object.entries(STRIPE_RULES))('%s', (reading, rules) => {
    test.each(of('stripe'))('$name', async ({ vector, bill }) => {
      const { draftHours } = vector;
      const grace = draftHours === undefined ? {} : { graceSeconds: draftHours * 3_600 };
      const vendor = await startStripe({ mode, ...rules, ...grace });
      const outcome = await liveMonth(vendor, vector.month);
      const key = reading === OTHERWISE ? (`${mode}, ${reading}` as const) : mode;
      expect(textOf(outcome)).toBe(vector.stripeIn?.[key] ?? bill);
      expectReported(outcome, vector.meanwhile);
    });
  });
});

describe.each(['never', 'generated'] as const)('Metronome, past statements: %s', (rule) => {
  test.each(of('metronome'))('$name', async ({ vector, bill }) => {
    const vendor = await startMetronome({ pastStatements: rule });
    const outcome = await liveMonth(vendor, vector.month);
    const past = rule === 'generated' ? vector.metronomePast : undefined;
    expect(textOf(outcome)).toBe(past ?? bill);
    expectReported(outcome, vector.meanwhile);
  });
});

const THIRTY_HOURS_LATE = '05T00 10, 31T23 4 @Feb 02T06:00, Feb 02T07:00 1';

test('26 Stripe: a draft that somebody stops is reported, and no other condition is', async () => {
  const vendor = await startStripe({ stopsDrafts: true });
  const outcome = await liveMonth(vendor, { usage: '05T00 10, 20T00 5' });
  expect(textOf(outcome)).toBe('draft Jan 30, never 15 ! LateRefusals');
});

test.each([
  ['a tax by Stripe Tax', { tax: { percent: 19, behavior: 'exclusive', isAutomatic: true } }],
  ['a tax by rates', { tax: { percent: 19, behavior: 'exclusive', isAutomatic: false } }],
  ['a coupon', { discountPercent: 20 }],
  ['prepaid credit', { grantedCents: 1_000 }],
] as const)('27 Stripe: late usage is on the next invoice with %s', async (_, rules) => {
  const vendor = await startStripe(rules);
  const outcome = await liveMonth(vendor, { usage: THIRTY_HOURS_LATE }, 'next');
  expect(textOf(outcome)).toBe('Jan 20, Feb 8+2');
});

test.each([
  ['with a tax', { tax: { percent: 19, of: 'charge' } }, 'Jan 20, (Feb 2) 8, Feb 2'],
  ['with a coupon', { couponPercent: 20 }, 'Jan 20, Feb 2 ! DeadLetters'],
] as const)('28 Lago: late usage is on a one-off invoice %s', async (_, rules, bill) => {
  const outcome = await liveMonth(await startLago({ rules }), { usage: THIRTY_HOURS_LATE }, 'next');
  expect(textOf(outcome)).toBe(bill);
});

describe('Metronome with two calls a minute for each path', () => {
  test.each(
    of('metronome').filter(({ name }) => name.includes('somebody') || name.includes('now')),
  )('$name', async ({ vector, bill }) => {
    const vendor = await startMetronome({ callsPerMinute: 2 });
    const outcome = await liveMonth(vendor, vector.month);
    expect(textOf(outcome)).toBe(bill);
    expectReported(outcome, vector.meanwhile);
  });
});
