import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  accidentsOf,
  type PostgresSuite,
  type PostgresSuiteOptions,
  startPostgresSuite,
} from '../run-suite.ts';

/** Time for one run, milliseconds. */
export const RUN_MS = 120_000;

/** Tests of the accidents that are wanted, each under the seed that brings it. */
export function testSoundRuns(wanted: (name: string, seed: number) => boolean): void {
  const options: PostgresSuiteOptions = { commit: 'standby' };
  const runs = accidentsOf(options)
    .map(({ name }, seed) => ({ name, seed }))
    .filter(({ name, seed }) => wanted(name, seed));
  describe('a ledger in PostgreSQL loses nothing, stores nothing twice and goes on after', () => {
    let suite: PostgresSuite;
    beforeAll(() => {
      suite = startPostgresSuite(options);
    });
    afterAll(() => suite.close());

    test.each(runs)(
      '$name',
      async ({ seed }) => {
        const run = await suite.run(seed);
        const command = 'npm run faults -- --ledger postgres';
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
