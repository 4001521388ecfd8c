import { expect, test } from 'vitest';
import { usePostgres } from '../testing/postgres-ledger.ts';
import { createReaders } from './readers.ts';

const used = usePostgres();

test('a server that says nothing more keeps a reader waiting for ever, or costs those after it their connection', async () => {
  const readers = createReaders(await used.server().createDatabase(), 200);
  const refused = 'no answer for 0.2 s';
  await expect(readers.query({ text: 'select pg_sleep(60)' })).rejects.toThrow(refused);
  expect(await readers.query({ text: 'select 1 as one' })).toEqual([{ one: '1' }]);
  await readers.end();
});
