import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NOTHING_WRONG } from '../rig/account.ts';
import { ACCIDENTS } from '../rig/accidents.ts';
import { RigSuite } from '../rig/suite.ts';

/** A few of the accidents; `npm run faults -- --ledger postgres --rig` has them all. */
const FEW = [
  'leader killed before its first window',
  'leader frozen for 15 s',
  'leader cut from the database',
  'primary killed, standby promoted',
  'both updated one after the other',
];

describe('two processes of the shipped program lose, double or hide usage', () => {
  let rig: RigSuite;

  beforeAll(async () => {
    rig = await RigSuite.start((line) => console.error(line));
  });
  afterAll(async () => {
    await rig?.close();
  });

  test.each(FEW)('%s', async (accident) => {
    const seed = ACCIDENTS.findIndex(({ name }) => name === accident);
    const { figures, wrong } = await rig.run(seed);
    expect({ figures, wrong }).toEqual({ figures: NOTHING_WRONG, wrong: [] });
  });
});
