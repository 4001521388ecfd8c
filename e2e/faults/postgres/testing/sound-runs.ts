import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { accidentsOf, type PostgresSuite, startPostgresSuite } from '../run-suite.ts';

/** Time for one run, milliseconds. */
export const RUN_MS = 120_000;

/** Tests of the accidents whose names are wanted, each under the seed that brings it; through a spool where it says so. */
export function testSoundRuns(wanted: (name: string) => boolean, spool = false): void {
  const options = { commit: 'standby', spool } as const;
  const runs = accidentsOf(options)
    .map(({ name }, seed) => ({ name, seed }))
    .filter(({ name }) => wanted(name));
  const way = spool ? ' through a spool' : '';
  describe(`a ledger in PostgreSQL${way} loses nothing, stores nothing twice and goes on after`, () => {
    let suite: PostgresSuite;
    beforeAll(() => {
      suite = startPostgresSuite(options);
    });
    afterAll(() => suite.close());

    test.each(runs)(
      '$name',
      async ({ seed }) => {
        const run = await suite.run(seed);
        const command = `npm run faults -- --ledger postgres${spool ? ' --spool' : ''}`;
        expect(run, `${command} --seed ${seed} --runs 1`).toMatchObject({
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
