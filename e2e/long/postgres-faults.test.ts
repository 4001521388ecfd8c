import { testSoundRuns } from '../faults/postgres/testing/sound-runs.ts';

testSoundRuns(() => true);
