import { type Effect, optionOf, testEffects } from '../../settings/testing/effects.ts';
import { LAGO_VARIABLES } from './settings.ts';

const LAGO = { ADAPTERS: 'billing_c', BILLING_C_API_KEY: 'k' };

const EFFECTS: readonly Effect[] = [
  ['DEFAULT_PLAN_CODE', 'gold', optionOf('lago', 'planCode'), 'gold', LAGO],
  ['BILLING_CURRENCY', 'EUR', optionOf('lago', 'currency'), 'EUR', LAGO],
  [
    'BILLING_C_API_URL',
    'https://lago.example.com/',
    optionOf('lago', 'url'),
    'https://lago.example.com',
    LAGO,
  ],
  ['BILLING_C_API_KEY', ' key\n', optionOf('lago', 'apiKey'), 'key', { ADAPTERS: 'lago' }],
  ['BILLING_C_WEBHOOK_SECRET', 'x', (s) => s.enforcement.webhookSecrets['lago'], ['x']],
];

testEffects(EFFECTS, LAGO_VARIABLES);
