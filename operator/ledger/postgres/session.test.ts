import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type PostgresServer, startPostgres } from '../testing/postgres-server.ts';
import { openSession } from './session.ts';

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server?.stop());

const sleeping = (seconds: number) => ({ text: `select pg_sleep(${seconds})` });

test('a batch that a slow server stores piece by piece is not given up halfway', async () => {
  const session = await openSession(await server.createDatabase(), 2_000);
  const answers = await session.run(Array.from({ length: 5 }, () => sleeping(0.6)));
  expect(answers).toHaveLength(5);
  expect(session.usable()).toBe(true);
  await session.end();
});

test('a server that has stopped answering in the midst of a batch is not waited for', async () => {
  const session = await openSession(await server.createDatabase(), 500);
  const stuck = session.run([sleeping(0), sleeping(600), sleeping(0)]);
  const outcome = await Promise.race([
    stuck.then(
      () => 'answered',
      () => 'given up',
    ),
    delay(20_000, 'waited for', { ref: false }),
  ]);
  expect(outcome).toBe('given up');
  expect(session.usable()).toBe(false);
});
