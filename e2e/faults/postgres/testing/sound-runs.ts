import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accidentsOf, type PostgresSuite, startPostgresSuite } from '../run-suite.ts';

const STANDBY = { commit: 'standby' } as const;

/** Time for one run, milliseconds. */
export const RUN_MS = 120_000;

/** Tests of the accidents whose names are wanted, each under the seed that brings it. */
export function testSoundRuns(wanted: (name: string) => boolean): void {
  const runs = accidentsOf(STANDBY)
    .map(({ name }, seed) => ({ name, seed }))
    .filter(({ name }) => wanted(name));
  describe('a ledger in PostgreSQL loses nothing, stores nothing twice and goes on after', () => {
    let suite: PostgresSuite;
    beforeAll(() => {
      suite = startPostgresSuite(STANDBY);
    });
    afterAll(() => suite.close());

    test.each(runs)(
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
}
