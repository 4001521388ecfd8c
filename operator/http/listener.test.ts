import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { expect, test } from 'vitest';
import { DEFAULT_LIMITS } from './limits.ts';
import { Listener } from './listener.ts';

const STRANGERS = 64;

/** A thread that connects, and says so in the shared number, while the main thread stands still. */
const CONNECT = `
const { workerData } = require('node:worker_threads');
const { connect } = require('node:net');
const connected = new Int32Array(workerData.connected);
for (let index = 0; index < ${STRANGERS}; index += 1) {
  connect(workerData.port, '127.0.0.1', () => {
    if (Atomics.add(connected, 0, 1) === ${STRANGERS - 1}) Atomics.notify(connected, 0);
  }).on('error', () => undefined);
}`;

test('strangers who keep connecting do not cost everybody else one turn of the process each', async () => {
  const accepted: string[] = [];
  const listener = new Listener(
    'LISTEN_ADDR',
    { ...DEFAULT_LIMITS, maxConnectionsPerAddress: 0 },
    () => undefined,
    (reason) => accepted.push(reason),
  );
  const { port } = await listener.listen({ host: '127.0.0.1', port: 0 });
  const connected = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(CONNECT, {
    eval: true,
    workerData: { port, connected: connected.buffer },
  });
  for (let seen = 0; seen < STRANGERS; seen = Atomics.load(connected, 0)) {
    Atomics.wait(connected, 0, seen, 10);
  }
  let slices = 0;
  while (accepted.length < STRANGERS) {
    await setImmediate();
    slices += 1;
  }
  expect(slices).toBeLessThan(STRANGERS / 2);
  await worker.terminate();
  await listener.close();
});
