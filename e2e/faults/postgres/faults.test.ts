import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isSound } from '../run-suite.ts';
import { accidentsOf, type PostgresSuite, startPostgresSuite } from './run-suite.ts';

const RUN_MS = 120_000;
const STANDBY = { commit: 'standby' } as const;
const LOCAL = { commit: 'local' } as const;
/** Each is another way of losing the primary; the rest takes longer (e2e/long). */
const QUICK = [
  'kill, promotion',
  'standbys cut off, kill, promotion',
  'commit cancelled while it waits, kill, promotion',
];
const RUNS = accidentsOf(STANDBY)
  .map(({ name }, seed) => ({ name, seed }))
  .filter(({ name }) => QUICK.includes(name));

describe('a ledger in PostgreSQL loses nothing, stores nothing twice and goes on after', () => {
  let suite: PostgresSuite;
  beforeAll(() => {
    suite = startPostgresSuite(STANDBY);
  });
  afterAll(() => suite.close());

  test.each(RUNS)(
    '$name',
    async ({ seed }) => {
      const run = await suite.run(seed);
      expect(run, `npm run faults -- --ledger postgres --seed ${seed} --runs 1`).toMatchObject({
        lost: 0,
        duplicated: 0,
        undetectedCorruption: 0,
        wrong: [],
        ends: ['completed'],
      });
      expect(run.events).toBeGreaterThan(0);
    },
    RUN_MS,
  );
});

describe('the harness notices', () => {
  let suite: PostgresSuite;
  beforeAll(() => {
    suite = startPostgresSuite(LOCAL);
  });
  afterAll(() => suite.close());

  test(
    'what is lost when commits do not wait for a standby, and so does the writer',
    async () => {
      const seed = accidentsOf(LOCAL).findIndex(({ name }) => name.startsWith('standbys cut off'));
      const run = await suite.run(seed);
      expect(isSound(run)).toBe(false);
      expect(run.lost).toBeGreaterThan(0);
      expect(run.ends).toEqual([expect.stringContaining('the newest events are missing')]);
    },
    RUN_MS,
  );
});
