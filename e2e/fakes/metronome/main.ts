import { parseArgs } from 'node:util';
import { openRequestJournal } from '../journal.ts';
import { startFakeMetronome } from './metronome.ts';

/**
 * Starts a stand-in for Metronome in a process of its own: `node e2e/fakes/metronome/main.ts
 * --api-token TOKEN [--port 3100] [--journal FILE]`. `/_fake/invoices` shows the events to invoice,
 * with their contracts.
 */
const { values } = parseArgs({
  options: {
    'api-token': { type: 'string' },
    port: { type: 'string', default: '0' },
    journal: { type: 'string' },
  },
});
const port = Number(values.port);
const apiToken = values['api-token'];
if (apiToken === undefined) {
  throw new Error('metronome: --api-token: missing: give the token to accept');
}
if (!Number.isInteger(port)) throw new Error(`metronome: --port: not a number: "${values.port}"`);
const metronome = await startFakeMetronome({
  apiToken,
  port,
  ...(values.journal !== undefined && { journal: openRequestJournal(values.journal) }),
});
console.log(`metronome stand-in at ${metronome.url}`);
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void metronome.close());
}
