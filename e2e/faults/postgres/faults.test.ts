import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isSound } from '../run-suite.ts';
import { accidentsOf, type PostgresSuite, startPostgresSuite } from './run-suite.ts';
import { RUN_MS, testSoundRuns } from './testing/sound-runs.ts';

const LOCAL = { commit: 'local' } as const;
/** Each is another way of losing the primary; the rest takes longer (e2e/long). */
const QUICK = [
  'kill, promotion',
  'standbys cut off, kill, promotion',
  'commit cancelled while it waits, kill, promotion',
];

testSoundRuns((name) => QUICK.includes(name));

describe('the harness notices', () => {
  let suite: PostgresSuite;
  beforeAll(() => {
    suite = startPostgresSuite(LOCAL);
  });
  afterAll(async () => {
    await suite.close();
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
});
