import { parseArgs } from 'node:util';
import { startReceiver } from './receiver.ts';

/**
 * A second destination to point a BillingDestination at:
 * `npm run receiver -- --file second.ndjson [--port 9000] [--secret text] [--answer 503 [--when text]]`.
 * `--answer` plays trouble: that status is the answer to every batch, or to those that contain a text.
 */
const { values } = parseArgs({
  options: {
    file: { type: 'string' },
    port: { type: 'string', default: '0' },
    secret: { type: 'string' },
    answer: { type: 'string' },
    when: { type: 'string', default: '' },
  },
});
const port = Number(values.port);
if (values.file === undefined) throw new Error('receiver: --file: missing; name the file to write');
if (!Number.isInteger(port)) throw new Error(`receiver: --port: not a number: "${values.port}"`);
const status = values.answer === undefined ? undefined : Number(values.answer);
if (status !== undefined && !(Number.isInteger(status) && status >= 200 && status <= 599)) {
  throw new Error(`receiver: --answer: not a status from 200 to 599: "${values.answer}"`);
}
const receiver = await startReceiver({
  file: values.file,
  port,
  log: (line) => console.log(line),
  secret: values.secret,
  ...(status === undefined ? {} : { refusal: { status, containing: values.when } }),
});
console.log(`receiving at ${receiver.url}, writing ${values.file}`);
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    void receiver.stop();
  });
}
