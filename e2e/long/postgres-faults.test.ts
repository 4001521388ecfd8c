import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  accidentsOf,
  type PostgresSuite,
  startPostgresSuite,
} from '../faults/postgres/run-suite.ts';

const RUN_MS = 120_000;
const STANDBY = { commit: 'standby' } as const;
const RUNS = accidentsOf(STANDBY).map(({ name }, seed) => ({ name, seed }));

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
