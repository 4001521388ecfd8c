import { type Effect, optionOf, testEffects } from '../../settings/testing/effects.ts';
import { METRONOME_VARIABLES } from './settings.ts';

const METRONOME = { ADAPTERS: 'billing_b', BILLING_B_API_TOKEN: 'k' };
const STRIPE_LINK = {
  url: 'https://api.billing-a.invalid',
  apiKey: 's',
  apiVersion: '2026-09-30.endive',
};

const EFFECTS: readonly Effect[] = [
  ['BILLING_B_API_TOKEN', 't', optionOf('metronome', 'apiToken'), 't', { ADAPTERS: 'metronome' }],
  ['BILLING_B_WEBHOOK_SECRET', 'x', (s) => s.enforcement.webhookSecrets['metronome'], ['x']],
  ['BILLING_B_RATE_CARD', 'standard', optionOf('metronome', 'rateCard'), 'standard', METRONOME],
  [
    'BILLING_B_STRIPE_LINK',
    'true',
    optionOf('metronome', 'stripeLink'),
    { ...STRIPE_LINK, collectionMethod: 'charge_automatically' },
    { ...METRONOME, STRIPE_API_KEY: 's' },
  ],
  [
    'BILLING_B_STRIPE_COLLECTION_METHOD',
    'send_invoice',
    optionOf('metronome', 'stripeLink'),
    { ...STRIPE_LINK, collectionMethod: 'send_invoice' },
    { ...METRONOME, STRIPE_API_KEY: 's', METRONOME_STRIPE_LINK: 'true' },
  ],
  [
    'BILLING_B_API_BASE',
    'https://m.example.com',
    optionOf('metronome', 'url'),
    'https://m.example.com',
    METRONOME,
  ],
];

testEffects(EFFECTS, METRONOME_VARIABLES);
