import { expect, test } from 'vitest';
import { openTestStream, usePostgres } from '../testing/postgres-ledger.ts';
import { readStreamState } from './stream-state.ts';

const used = usePostgres();
const STREAM = { source: 'berlin', region: 'eu' };

test('a process learns of an older or newer program, or of another leader, only by leading', async () => {
  const database = await used.server().createDatabase();
  const query = (text: string) => used.server().query(text, database.name);
  const nothing = { kind: 'seen', schema: 'none', owner: '', epoch: 0 };
  expect(await readStreamState(database, STREAM)).toEqual(nothing);
  const first = await openTestStream(database, STREAM);
  const led = await readStreamState(database, STREAM);
  expect(led).toMatchObject({ schema: 'current', epoch: 1, owner: expect.stringContaining(' ') });
  const second = await openTestStream(database, STREAM);
  expect(await readStreamState(database, STREAM)).toMatchObject({ schema: 'current', epoch: 2 });
  expect(await readStreamState(database, { source: 'paris' })).toMatchObject({
    owner: '',
    epoch: 0,
  });
  await query(
    'insert into meterfeed_berlin.version (version) select max(version) + 1 from meterfeed_berlin.version',
  );
  expect(await readStreamState(database, STREAM)).toMatchObject({ schema: 'newer', epoch: 2 });
  await query('update meterfeed_berlin.version set version = 0 - version');
  expect(await readStreamState(database, STREAM)).toMatchObject({ schema: 'older', epoch: 2 });
  await first.close();
  await second.close();
});

test('a database that cannot be reached is taken for an empty one', async () => {
  const database = await used.server().createDatabase();
  expect(await readStreamState({ ...database, port: 1 }, STREAM)).toMatchObject({
    kind: 'failed',
    cause: 'retryable',
    message: expect.stringContaining('127.0.0.1:1'),
  });
});
