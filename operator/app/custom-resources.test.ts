import { expect, test } from 'vitest';
import { CustomResources, whenConfigured } from './custom-resources.ts';
import { aborted } from './components.ts';
import type { Controllers } from '../controllers/controllers.ts';

function guarded() {
  const read = Promise.withResolvers<undefined>();
  const customResources = new CustomResources(() => ({
    ready: (signal) =>
      Promise.race([
        read.promise,
        aborted(signal).then(() => Promise.reject(new Error('aborted'))),
      ]),
    destinations: () => [],
  }));
  const begun: string[] = [];
  const work = {
    name: 'discovery',
    run: async (signal: AbortSignal) => {
      begun.push('begun');
      await aborted(signal);
    },
  };
  const stop = new AbortController();
  const component = whenConfigured(customResources, work);
  return { component, begun, read, stop, ended: component.run(stop.signal) };
}

test('nothing is discovered or billed by settings that lack the custom resources', async () => {
  const { component, begun, read, stop, ended } = guarded();
  expect(component.name).toBe('discovery');
  await new Promise(setImmediate);
  expect(begun).toEqual([]);
  read.resolve(undefined);
  await new Promise(setImmediate);
  expect(begun).toEqual(['begun']);
  stop.abort();
  await ended;
});

test('an operator that waits for its custom resources can be stopped', async () => {
  const { begun, stop, ended } = guarded();
  stop.abort();
  await ended;
  expect(begun).toEqual([]);
});

test('a failure to look at them is not passed over', async () => {
  const { begun, read, ended } = guarded();
  read.reject(new Error('closed'));
  await expect(ended).rejects.toThrow('closed');
  expect(begun).toEqual([]);
});

test('delivery retires the cursors of all destinations because nobody has read the custom resources', () => {
  const customResources = new CustomResources(
    (): Pick<Controllers, 'ready' | 'destinations'> => controllers,
  );
  expect(() => customResources.destinations()).toThrow("Cannot access 'controllers'");
  const controllers = { ready: async () => undefined, destinations: () => [] };
  expect(customResources.destinations()).toEqual([]);
});
