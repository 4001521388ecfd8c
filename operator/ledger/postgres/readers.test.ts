import { expect, test } from 'vitest';
import { usePostgres } from '../testing/postgres-ledger.ts';
import { createReaders } from './readers.ts';

const used = usePostgres();

test('a row that nobody can read, and a statement that the server refuses, fail one read and not the process', async () => {
  const readers = createReaders(await used.server().createDatabase());
  const text = 'copy (select generate_series(1, 3)) to stdout';
  const refuse = (): void => {
    throw new RangeError('the piece is too short');
  };
  await expect(readers.copyOut(text, refuse)).rejects.toThrow('too short');
  await expect(readers.copyOut('copy (select nothing) to stdout', refuse)).rejects.toThrow(
    'column "nothing" does not exist',
  );
  const pieces: string[] = [];
  await readers.copyOut(text, (piece) => void pieces.push(piece.toString()));
  expect(pieces).toEqual(['1\n', '2\n', '3\n']);
  await readers.end();
});

test('a server that says nothing more keeps a reader waiting for ever, or costs those after it their connection', async () => {
  const readers = createReaders(await used.server().createDatabase(), 200);
  const refused = 'no answer for 0.2 s';
  await expect(readers.query({ text: 'select pg_sleep(60)' })).rejects.toThrow(refused);
  const copying = readers.copyOut('copy (select pg_sleep(60)) to stdout', () => undefined);
  await expect(copying).rejects.toThrow(refused);
  expect(await readers.query({ text: 'select 1 as one' })).toEqual([{ one: '1' }]);
  await readers.end();
});
