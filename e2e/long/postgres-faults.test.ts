import { testSoundRuns } from '../faults/postgres/testing/sound-runs.ts';

testSoundRuns(() => true);
testSoundRuns(() => true, 'spool');
/** Each accident of the servers with one take-over or another. */
testSoundRuns((_, seed) => seed < 15, 'replicas');
