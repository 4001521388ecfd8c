import { expect, test } from 'vitest';
import { aborted } from './parts.ts';
import { whenConfigured } from './when-configured.ts';

function gated() {
  const read = Promise.withResolvers<undefined>();
  const controllers = {
    ready: (signal: AbortSignal) =>
      Promise.race([
        read.promise,
        aborted(signal).then(() => Promise.reject(new Error('aborted'))),
      ]),
  };
  const begun: string[] = [];
  const work = {
    name: 'discovery',
    run: async (signal: AbortSignal) => {
      begun.push('begun');
      await aborted(signal);
    },
  };
  const stop = new AbortController();
  const part = whenConfigured(controllers, work);
  return { part, begun, read, stop, ended: part.run(stop.signal) };
}

test('nothing is discovered or billed by settings that lack the custom resources', async () => {
  const { part, begun, read, stop, ended } = gated();
  expect(part.name).toBe('discovery');
  await new Promise(setImmediate);
  expect(begun).toEqual([]);
  read.resolve(undefined);
  await new Promise(setImmediate);
  expect(begun).toEqual(['begun']);
  stop.abort();
  await ended;
});

test('an operator that waits for its custom resources can be stopped', async () => {
  const { begun, stop, ended } = gated();
  stop.abort();
  await ended;
  expect(begun).toEqual([]);
});

test('a failure to look at them is not passed over', async () => {
  const { begun, read, ended } = gated();
  read.reject(new Error('closed'));
  await expect(ended).rejects.toThrow('closed');
  expect(begun).toEqual([]);
});
