import { type Effect, optionOf, testEffects } from '../../settings/testing/effects.ts';
import { WEBHOOK_VARIABLES } from './settings.ts';

const WEBHOOK = { ADAPTERS: 'webhook', WEBHOOK_URL: 'https://hooks.example.com/in' };

const EFFECTS: readonly Effect[] = [
  [
    'WEBHOOK_URL',
    'http://10.0.0.8/x?y=1',
    optionOf('webhook', 'url'),
    'http://10.0.0.8/x?y=1',
    WEBHOOK,
  ],
  ['WEBHOOK_SECRET', 'new,old', optionOf('webhook', 'secrets'), ['new', 'old'], WEBHOOK],
  [
    'WEBHOOK_HEADERS',
    'X-Key=a=b, X-B=c d',
    optionOf('webhook', 'headers'),
    { 'X-Key': 'a=b', 'X-B': 'c d' },
    WEBHOOK,
  ],
];

testEffects(EFFECTS, WEBHOOK_VARIABLES);
