import { type Effect, optionOf, testEffects } from '../../settings/testing/effects.ts';
import { STRIPE_VARIABLES } from './settings.ts';

const STRIPE = { ADAPTERS: 'billing_a', BILLING_A_API_KEY: 'k' };

const EFFECTS: readonly Effect[] = [
  ['DEFAULT_PLAN_CODE', 'gold', optionOf('stripe', 'planCode'), 'gold', STRIPE],
  [
    'BILLING_A_API_KEY',
    'sk_test_1',
    optionOf('stripe', 'apiKey'),
    'sk_test_1',
    { ADAPTERS: 'stripe' },
  ],
  ['BILLING_A_WEBHOOK_SECRET', 'x,y', (s) => s.enforcement.webhookSecrets['stripe'], ['x', 'y']],
  [
    'BILLING_A_SPLIT_METERS_BY',
    'sku,capacity_type',
    optionOf('stripe', 'splitMetersBy'),
    ['sku', 'capacity_type'],
    STRIPE,
  ],
  ['BILLING_A_AUTO_SUBSCRIBE', 'yes', optionOf('stripe', 'autoSubscribe'), true, STRIPE],
  ['BILLING_A_CANCEL_ON_REMOVE', '1', optionOf('stripe', 'cancelOnRemove'), true, STRIPE],
  ['BILLING_A_MAX_RPS', '50', optionOf('stripe', 'maxRequestsPerSecond'), 50, STRIPE],
  [
    'BILLING_A_API_VERSION',
    '2027-01-31.fir',
    optionOf('stripe', 'apiVersion'),
    '2027-01-31.fir',
    STRIPE,
  ],
  [
    'BILLING_A_API_BASE',
    'http://127.0.0.1:9',
    optionOf('stripe', 'url'),
    'http://127.0.0.1:9',
    STRIPE,
  ],
];

testEffects(EFFECTS, STRIPE_VARIABLES);
