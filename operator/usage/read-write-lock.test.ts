import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { ReadWriteLock } from './read-write-lock.ts';

setFlagsFromString('--expose-gc');
const collect: unknown = runInNewContext('gc');

test('what readers and writers were given stays in memory for as long as the lock', async () => {
  const lock = new ReadWriteLock();
  const given: WeakRef<object>[] = [];
  const give = async (): Promise<object> => {
    const answer = { rows: [] };
    given.push(new WeakRef(answer));
    return answer;
  };
  for (let turn = 0; turn < 10; turn += 1) {
    await lock.read(give);
    await lock.write(give);
  }
  await lock.read(async () => undefined);
  // References that were looked at in a turn of the event loop are kept until its end.
  await new Promise((resolve) => setImmediate(resolve));
  if (typeof collect !== 'function') throw new Error('the heap cannot be collected');
  collect();
  expect(given.filter((answer) => answer.deref() !== undefined)).toEqual([]);
});

test('a writer begins before readers are done, or a later reader before a waiting writer', async () => {
  const lock = new ReadWriteLock();
  const order: string[] = [];
  const turn = (name: string) => async (): Promise<void> => {
    order.push(`${name} begins`);
    await new Promise((resolve) => setImmediate(resolve));
    order.push(`${name} ends`);
  };
  const failing = lock.read(async () => {
    await turn('failing')();
    throw new Error('no');
  });
  await Promise.all([
    expect(failing).rejects.toThrow('no'),
    lock.read(turn('reader')),
    lock.write(turn('writer')),
    lock.read(turn('later')),
  ]);
  expect(order.slice(0, 2).toSorted()).toEqual(['failing begins', 'reader begins']);
  expect(order.slice(4)).toEqual(['writer begins', 'writer ends', 'later begins', 'later ends']);
});
