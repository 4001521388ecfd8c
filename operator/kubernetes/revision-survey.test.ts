import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Revisions } from './catch-up.ts';
import type { Connection } from './connection.ts';
import { createRevisionSurvey } from './revision-survey.ts';
import { createManualClock, type ManualClock } from './testing/manual-clock.ts';

const PODS = '/api/v1/pods';
/** As long as watches catch up, milliseconds. */
const CATCHING_UP_MS = 30_000;
/** The survey itself is over by then. */
const READ_MS = 2_000;

let clock: ManualClock;
let stop: AbortController;
/** When the newest version was asked for. */
let asked: number[];
let newest: number;
let survey: Revisions;

beforeEach(async () => {
  clock = createManualClock();
  stop = new AbortController();
  asked = [];
  newest = 1_000;
  const connection: Pick<Connection, 'request' | 'stream'> = {
    request: async () => {
      asked.push(clock.now());
      const metadata = { resourceVersion: String(newest) };
      return { kind: 'ok', status: 200, body: { kind: 'PodList', metadata, items: [] } };
    },
    stream: async () => ({ kind: 'network', message: 'nothing was missed' }),
  };
  survey = createRevisionSurvey({ connection, paths: [PODS], clock });
  const learnt = survey.learn('900', stop.signal);
  await clock.advance(READ_MS);
  await learnt;
  asked = [];
});

afterEach(() => stop.abort());

describe('while watches catch up', () => {
  test('the newest version is asked for so often that what nothing dates is known within two seconds on a slow machine', async () => {
    const begun = clock.now();
    await clock.advance(CATCHING_UP_MS);
    const until = [...asked, begun + CATCHING_UP_MS - READ_MS];
    for (const [index, at] of until.entries()) {
      expect(at - (until[index - 1] ?? begun)).toBeLessThanOrEqual(1_000);
    }
    // Twice a second they would be sixty.
    expect(asked.length).toBeLessThanOrEqual(31);
  });

  test('nothing is asked for as long as what arrives is dated', async () => {
    for (let passed = 0; passed < CATCHING_UP_MS; passed += 100) {
      newest += 1;
      const written = Math.floor((clock.now() - 100) / 1_000) * 1_000;
      survey.observe(String(newest), { from: written });
      await clock.advance(100);
    }
    expect(asked).toEqual([]);
    newest += 1;
    expect(clock.now() - survey.bracket(String(newest)).from).toBeLessThanOrEqual(2_000);
  });

  test('dates of a clock that is ahead do not keep the newest version from being asked for', async () => {
    survey.observe(String(newest + 1), { from: clock.now() + 3_600_000 });
    await clock.advance(READ_MS);
    expect(asked.length).toBeGreaterThan(0);
  });
});

test('when the watches have caught up nothing is asked for any more', async () => {
  await clock.advance(CATCHING_UP_MS);
  asked = [];
  await clock.advance(CATCHING_UP_MS);
  expect(asked).toEqual([]);
});

test('what is written while a busy API server is read is known within two seconds, too', async () => {
  const readingMs = 5_000;
  const times: number[] = [];
  async function* slowly(signal: AbortSignal): AsyncGenerator<string> {
    for (let version = 901; !signal.aborted; version += 1) {
      const metadata = { name: 'p', uid: 'u', namespace: 'n', resourceVersion: String(version) };
      yield JSON.stringify({ type: 'MODIFIED', object: { metadata } });
      await clock.sleep(200, signal).catch(() => undefined);
    }
  }
  const connection: Pick<Connection, 'request' | 'stream'> = {
    request: async () => {
      times.push(clock.now());
      const metadata = { resourceVersion: String(newest) };
      return { kind: 'ok', status: 200, body: { kind: 'PodList', metadata, items: [] } };
    },
    stream: async (_path, { signal }) => ({ kind: 'ok', lines: slowly(signal) }),
  };
  const reading = createRevisionSurvey({ connection, paths: [PODS], clock });
  const learnt = reading.learn('900', stop.signal);
  await clock.advance(2_500);
  newest += 1;
  await clock.advance(readingMs);
  await learnt;
  const { from, until } = reading.bracket(String(newest));
  expect(until - from).toBeLessThanOrEqual(2_000);
});
