import { parseArgs } from 'node:util';
import { startReceiver } from './receiver.ts';

/**
 * A second destination to point a BillingDestination at:
 * `npm run receiver -- --file second.ndjson [--port 9000] [--secret text]`.
 */
const { values } = parseArgs({
  options: {
    file: { type: 'string' },
    port: { type: 'string', default: '0' },
    secret: { type: 'string' },
  },
});
const port = Number(values.port);
if (values.file === undefined) throw new Error('receiver: --file: missing; name the file to write');
if (!Number.isInteger(port)) throw new Error(`receiver: --port: not a number: "${values.port}"`);
const receiver = await startReceiver({
  file: values.file,
  port,
  ...(values.secret === undefined ? {} : { secret: values.secret }),
});
console.log(`receiving at ${receiver.url}, writing ${values.file}`);
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    void receiver.stop();
  });
}
