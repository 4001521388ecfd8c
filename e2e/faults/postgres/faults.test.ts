import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isSound } from '../run-suite.ts';
import { accidentsOf, type PostgresSuite, startPostgresSuite } from './run-suite.ts';
import { RUN_MS, testSoundRuns } from './testing/sound-runs.ts';

const LOCAL = { commit: 'local' } as const;
const UNFENCED = { ...LOCAL, replicas: true, unfenced: true } as const;
/** Each is another way of losing the primary; the rest takes longer (e2e/long). */
const QUICK = [
  'kill, promotion',
  'standbys cut off, kill, promotion',
  'commit cancelled while it waits, kill, promotion',
];

/** Each is another way of taking over. */
const TAKEN_OVER = [
  'nothing; the meter is killed',
  'nothing; two believe to lead',
  // What the other one has seen and nobody was acknowledged is gone.
  'commit cancelled while it waits, kill, promotion; two believe to lead',
  'kill, promotion; the meter is frozen, and goes on after it was taken over',
];

testSoundRuns((name) => QUICK.includes(name));
testSoundRuns((name) => QUICK.includes(name), 'spool');
testSoundRuns((name) => TAKEN_OVER.includes(name), 'replicas');

describe('the harness notices', () => {
  let suite: PostgresSuite;
  let unfenced: PostgresSuite;
  beforeAll(() => {
    suite = startPostgresSuite(LOCAL);
    unfenced = startPostgresSuite(UNFENCED);
  });
  afterAll(async () => {
    await suite.close();
    await unfenced.close();
  });

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

  test(
    'what the former meter writes after another one has begun to lead',
    async () => {
      const names = accidentsOf(UNFENCED).map(({ name }) => name);
      const run = await unfenced.run(names.indexOf('nothing; two believe to lead'));
      // Whichever of the two is behind may put the journal back at the end, which is told as well.
      expect(run.wrong).toContainEqual(expect.stringContaining('by replica-0 in term 1'));
    },
    RUN_MS,
  );
});
