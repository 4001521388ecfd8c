import { describe, expect, test } from 'vitest';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { cluster, pod } from '../meters/testing/objects.ts';
import { UNSEEN } from './gaps.ts';
import { STATE_KEY } from './journal.ts';
import {
  at,
  clockAt,
  coreSeconds,
  eventsOf,
  pass,
  running,
  settingsOf,
  startProcess,
} from './testing/harness.ts';

const OBJECTS = { pods: [running] };
/** The journal was written when the window 12:01 was closed. */
const KNOWN_AT = at(63);

/** Runs for 70 seconds, is killed, and starts again after `down` seconds. */
async function restart(down: number, environment = {}) {
  const clock = clockAt(-20);
  const ledger = createMemoryLedger();
  const settings = { current: settingsOf(environment) };
  const before = await startProcess({ ledger, clock, settings, objects: OBJECTS });
  before.discover([cluster('a')]);
  await pass(clock, 20 + 70);
  expect(before.collector.gaps()).toEqual([]);
  await before.kill();
  await clock.advance(down * 1_000);
  const startedAt = clock.now();
  const process = await startProcess({ ledger, clock, settings, objects: OBJECTS });
  process.discover([cluster('a')]);
  return { clock, ledger, process, startedAt };
}

describe('a stop after which watches have to list', () => {
  test('of sixteen minutes leaves pods that came and went in it unbilled, and nothing reports it', async () => {
    const { clock, ledger, process, startedAt } = await restart(960);
    await pass(clock, 60);
    // What existed before and after the stop is billed to the second.
    expect(coreSeconds(await eventsOf(ledger))).toBe(18 * 60);
    const gap = { from: KNOWN_AT, to: startedAt, reason: UNSEEN };
    const expected = [
      ['pods', 'pods'],
      ['pods', 'gpus'],
      ['nodes', 'gpus'],
      ['resourceclaims', 'gpus'],
      ['persistentvolumeclaims', 'volumes'],
      ['services', 'load-balancers'],
      ['statefulsets', 'workloads'],
    ].map(([source, scope]) => ({ source, scope, ...gap }));
    const gaps = process.collector.gaps();
    expect(gaps).toHaveLength(expected.length);
    expect(gaps).toEqual(expect.arrayContaining(expected));
    const seconds = await process.metrics.gapSeconds.get();
    const ofClaims = seconds.values.find(({ labels }) => labels.source === 'resourceclaims');
    expect(ofClaims?.value).toBe((startedAt - KNOWN_AT) / 1_000);
    await process.kill();
  });

  test('is still reported after the next one, with the window reports that it touches', async () => {
    const { clock, ledger, process, startedAt } = await restart(960);
    // By now the journal says that its watches have missed nothing.
    await pass(clock, 5);
    await process.kill();
    const again = await startProcess({ ledger, clock, objects: OBJECTS });
    again.discover([cluster('a')]);
    await pass(clock, 60);
    const own = again.collector.gaps().filter(({ source }) => source === 'services');
    expect(own).toEqual([
      {
        source: 'services',
        scope: 'load-balancers',
        from: KNOWN_AT,
        to: startedAt,
        reason: UNSEEN,
      },
    ]);
    const reports = [...again.collector.reports()];
    const touched = reports.filter(({ gaps }) => gaps.some(({ reason }) => reason === UNSEEN));
    expect(touched.length).toBeGreaterThanOrEqual(16);
    await again.kill();
  });

  test('of no more than two windows is no gap: every upgrade would alarm somebody', async () => {
    const { clock, process, startedAt } = await restart(120 - 7);
    expect(startedAt - KNOWN_AT).toBe(120_000);
    await pass(clock, 130);
    expect(process.collector.gaps()).toEqual([]);
    await process.kill();
  });

  test('and a journal that is lost hides what went on since the last window', async () => {
    const clock = clockAt(-20);
    const ledger = createMemoryLedger();
    const before = await startProcess({ ledger, clock, objects: OBJECTS });
    before.discover([cluster('a')]);
    await pass(clock, 20 + 70);
    await before.kill();
    await ledger.writeRecords([{ key: STATE_KEY, value: undefined }]);
    await clock.advance(960_000);
    const process = await startProcess({ ledger, clock, objects: OBJECTS });
    process.discover([cluster('a')]);
    await pass(clock, 60);
    const [gap] = process.collector.gaps().filter(({ scope }) => scope === 'pods');
    expect(gap).toMatchObject({ source: 'pods', from: at(60), reason: UNSEEN });
    await process.kill();
  });
});

test('a first start of all has missed nothing, whatever there was before', async () => {
  const clock = clockAt(-20);
  const process = await startProcess({ ledger: createMemoryLedger(), clock, objects: OBJECTS });
  process.discover([cluster('a')]);
  await pass(clock, 20 + 70);
  expect(process.collector.gaps()).toEqual([]);
  await process.kill();
});

test('a gap that is forgotten after RETENTION comes back for as long as the process runs', async () => {
  const { clock, process } = await restart(960, { RETENTION: '2h', MAX_BACKFILL: '1h' });
  await pass(clock, 60);
  expect(process.collector.gaps()).not.toEqual([]);
  await clock.advance(3 * 3_600_000);
  await pass(clock, 70);
  const unseen = process.collector.gaps().filter(({ reason }) => reason === UNSEEN);
  expect(unseen).toEqual([]);
  // Last month's invoice still shows it.
  const past = process.collector.pastGaps().filter(({ reason }) => reason === UNSEEN);
  expect(past).not.toEqual([]);
  await process.kill();
});

test('two outages of one watch between two writes of the journal are two gaps', async () => {
  const { clock, process } = await restart(10);
  await pass(clock, 2);
  process.pods.fail('connection refused');
  const failedAt = clock.now();
  await clock.advance(200_000);
  process.pods.recover([running, pod({ name: 'q' })]);
  const backAt = clock.now();
  await clock.advance(5_000);
  process.pods.fail('connection refused');
  await clock.advance(200_000);
  process.pods.recover([running]);
  await pass(clock, 70);
  const own = process.collector.gaps().filter(({ scope }) => scope === 'pods');
  expect(own.map(({ from, to }) => [from, to])).toEqual([
    [backAt + 5_000, backAt + 205_000],
    [failedAt, backAt],
  ]);
  await process.kill();
});
