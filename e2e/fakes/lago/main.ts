import { parseArgs } from 'node:util';
import { openRequestJournal } from '../journal.ts';
import { startFakeLago } from './lago.ts';

/**
 * Starts a stand-in for Lago in a process of its own: `node e2e/fakes/lago/main.ts --api-key KEY
 * [--port 3000] [--journal FILE] [--store clickhouse] [--legacy]`. `/` shows the bills.
 */
const { values } = parseArgs({
  options: {
    'api-key': { type: 'string' },
    port: { type: 'string', default: '0' },
    journal: { type: 'string' },
    store: { type: 'string', default: 'postgres' },
    legacy: { type: 'boolean', default: false },
  },
});
const port = Number(values.port);
const apiKey = values['api-key'];
if (apiKey === undefined) throw new Error('lago: --api-key: missing: give the key to accept');
if (!Number.isInteger(port)) throw new Error(`lago: --port: not a number: "${values.port}"`);
if (values.store !== 'postgres' && values.store !== 'clickhouse') {
  throw new Error(`lago: --store: not postgres or clickhouse: "${values.store}"`);
}
const lago = await startFakeLago({
  apiKey,
  port,
  store: values.store,
  legacy: values.legacy,
  ...(values.journal !== undefined && { journal: openRequestJournal(values.journal) }),
});
console.log(`lago stand-in at ${lago.url}`);
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void lago.close());
}
