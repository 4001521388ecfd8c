import { describe, expect, test } from 'vitest';
import { type Environment, loadEnvironment } from './load-environment.ts';
import { DESTINATIONS } from '../destinations/registry.ts';

/** Those of the specification, whatever else there may be. */
const SPECIFIED = DESTINATIONS.filter(({ type }) =>
  ['webhook', 'lago', 'stripe', 'metronome', 'noop'].includes(type),
);

function load(environment: Environment) {
  const loaded = loadEnvironment(environment, SPECIFIED);
  if (loaded.kind === 'invalid') {
    return { destinations: [], problems: loaded.problems, warnings: [] };
  }
  return { ...loaded.settings.billing, problems: [], warnings: loaded.warnings };
}

describe('a bare install refuses to start, or a key is silently ignored', () => {
  test('without a key the default destination does not count', () => {
    expect(load({})).toMatchObject({ destinations: [], problems: [] });
  });

  test.each(['BILLING_C_API_KEY', 'LAGO_API_KEY'])('with %s it is billing_c', (name) => {
    const { destinations } = load({ [name]: 'k' });
    expect(destinations).toMatchObject([
      { name: 'billing_c', type: 'lago', options: { url: 'http://localhost:3000' } },
    ]);
  });

  test('none is no destination, whatever keys are set', () => {
    expect(load({ ADAPTERS: 'none', LAGO_API_KEY: 'k' }).destinations).toStrictEqual([]);
  });
});

test.each([
  [{}, 'now'],
  [{ DESTINATIONS_START_FROM: 'earliest' }, 'earliest'],
] as const)('with %o destinations begin where they are set to: %s', (environment, startFrom) => {
  const { destinations } = load({ ADAPTERS: 'noop,lago', LAGO_API_KEY: 'k', ...environment });
  expect(destinations).toMatchObject([
    { name: 'noop', startFrom },
    { name: 'lago', startFrom },
  ]);
});

test.each([
  [{}, { planChange: 'now', mode: 'test' }],
  [
    {
      DESTINATIONS_PLAN_CHANGE: 'period-end',
      DESTINATIONS_MODE: 'live',
    },
    { planChange: 'period-end', mode: 'live' },
  ],
] as const)(
  'with %o destinations change plans and bill as they are set to: %o',
  (given, wanted) => {
    const { destinations } = load({ ADAPTERS: 'noop,lago', LAGO_API_KEY: 'k', ...given });
    expect(destinations).toMatchObject([wanted, wanted]);
  },
);

describe('a destination that was configured starts without what it needs', () => {
  test.each([
    ['billing_a', 'BILLING_A_API_KEY'],
    ['stripe', 'STRIPE_API_KEY'],
    ['billing_b', 'BILLING_B_API_TOKEN'],
    ['metronome', 'METRONOME_API_TOKEN'],
    ['billing_c', 'BILLING_C_API_KEY'],
    ['lago', 'LAGO_API_KEY'],
    ['webhook', 'WEBHOOK_URL'],
  ])('%s without %s', (name, variable) => {
    const fix = `set ${variable}, or take the destination out of ADAPTERS`;
    expect(load({ ADAPTERS: name }).problems).toStrictEqual([
      `${variable}: missing, and required by the destination: "${name}"; ${fix}`,
    ]);
  });

  test('linking to Stripe needs Stripe’s key', () => {
    const metronome = { METRONOME_API_TOKEN: 't', METRONOME_STRIPE_LINK: 'true' };
    expect(load({ ADAPTERS: 'metronome', ...metronome }).problems).toStrictEqual([
      'STRIPE_API_KEY: missing, and required by the destination: "metronome"; ' +
        'set STRIPE_API_KEY, or take the destination out of ADAPTERS',
    ]);
    expect(load(metronome).problems).toStrictEqual([]);
  });
});

describe('one destination is fed twice, or a misspelt one never', () => {
  test.each([
    ['stripe,billing_a', 'ADAPTERS: "stripe" is the same destination: "billing_a"; name it once'],
    ['noop,noop', 'ADAPTERS: listed twice: "noop"; name it once'],
    [
      'kafka',
      'ADAPTERS: unknown destination: "kafka"; use billing_a or stripe, billing_b or metronome, billing_c or lago, webhook, noop, or none',
    ],
  ])('%s', (adapters, problem) => {
    expect(load({ ADAPTERS: adapters, STRIPE_API_KEY: 'k' }).problems).toStrictEqual([problem]);
  });
});

describe('a neutral spelling reaches the real vendor by accident', () => {
  test.each([
    ['billing_a', 'https://api.billing-a.invalid'],
    ['stripe', 'https://api.stripe.com'],
    ['billing_b', 'https://api.billing-b.invalid'],
    ['metronome', 'https://api.metronome.com'],
  ])('%s defaults to %s', (name, url) => {
    const { destinations } = load({
      ADAPTERS: name,
      BILLING_A_API_KEY: 'k',
      BILLING_B_API_TOKEN: 't',
    });
    expect(JSON.stringify(destinations)).toContain(`"url":"${url}"`);
    expect(destinations[0]?.name).toBe(name);
  });
});

describe('an earlier release’s variables stop working without a word', () => {
  test('ADAPTER counts when ADAPTERS is empty, and warns', () => {
    const { destinations, warnings } = load({ ADAPTER: 'noop', ADAPTERS: '' });
    expect(destinations).toMatchObject([{ name: 'noop' }]);
    expect(warnings).toContain('ADAPTER: deprecated; use ADAPTERS');
  });

  test('ADAPTER does not count beside ADAPTERS', () => {
    expect(load({ ADAPTER: 'lago', ADAPTERS: 'noop' }).destinations).toMatchObject([
      { name: 'noop' },
    ]);
  });

  test('ADAPTER without the key it needs is an error too', () => {
    expect(load({ ADAPTER: 'lago' }).problems[0]).toContain('out of ADAPTER');
  });

  test('SPOT_DISCOUNT_PERCENT is ignored, and says so', () => {
    expect(load({ SPOT_DISCOUNT_PERCENT: '70' }).warnings[0]).toMatch(
      /^SPOT_DISCOUNT_PERCENT: deprecated; it has no effect/,
    );
  });
});
