import { expect, test } from 'vitest';
import { systemClock } from '../../telemetry/system-clock.ts';
import type { Ledger } from '../ledger.ts';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { lookTogether } from './poll.ts';
import { createReaders } from './readers.ts';

const used = usePostgres();

test('a hub asks once for all of its streams, not once for each', async () => {
  const database = await used.server().createDatabase();
  const regions = ['eu-1', 'eu-2', 'eu-3'];
  const ledgers: Ledger[] = [];
  for (const region of regions) {
    ledgers.push(await openTestStream(database, { source: region, region }));
  }
  const readers = createReaders(database);
  let questions = 0;
  const look = lookTogether((statement) => {
    questions += 1;
    return readers.query(statement);
  }, systemClock);
  const streams = [1, 2, 3, 4];
  const { signal } = new AbortController();
  const rows = await Promise.all(streams.map((stream) => look(stream, signal)));
  expect(rows.map((row) => row?.['stream'])).toEqual(['1', '2', '3', undefined]);
  expect(questions).toBe(1);
  // What is written after a look is seen by the next one.
  await ledgers[1]?.writeRecords([{ key: 'k', value: 'v' }]);
  expect((await look(2, signal))?.['batch']).not.toBe(rows[1]?.['batch']);
  expect(questions).toBe(2);
  await readers.end();
  for (const ledger of ledgers) await ledger.close();
});

test('a process that ends does not wait for a database that is away', async () => {
  const look = lookTogether(() => new Promise(() => undefined), systemClock);
  expect(await look(1, AbortSignal.timeout(300))).toBeUndefined();
  const refused = lookTogether(() => Promise.reject(new Error('away')), systemClock);
  expect(await refused(1, new AbortController().signal)).toBeUndefined();
});
