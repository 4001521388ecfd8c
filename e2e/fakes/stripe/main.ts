import { parseArgs } from 'node:util';
import { startFakeStripe } from './stripe.ts';

/**
 * Starts the stand-in by itself until its process ends: `node e2e/fakes/stripe/main.ts --api-key
 * sk_test_local [--port 3200]`.
 */
const { values } = parseArgs({
  options: {
    'api-key': { type: 'string' },
    port: { type: 'string', default: '0' },
  },
});
const apiKey = values['api-key'];
if (apiKey === undefined) throw new Error('stripe: --api-key: missing: name the key to accept');
const port = Number(values.port);
if (!Number.isInteger(port)) throw new RangeError(`stripe: --port: not a number: "${values.port}"`);
const stripe = await startFakeStripe({ apiKey, port, keepsRequests: false });
console.log(`a stand-in for Stripe listens at ${stripe.url}`);
console.log(`what it has counted: ${stripe.url}/_fake/events`);
