import { afterEach, describe, expect, test } from 'vitest';
import type { Condition } from './conditions.ts';
import type { RequestOptions, RequestOutcome } from './connection.ts';
import { EventRecorder, type KubernetesEvent } from './events.ts';
import { StatusPublisher } from './status-publisher.ts';
import { createCapturingLogger } from './testing/capturing-logger.ts';
import { createManualClock } from './testing/manual-clock.ts';

const resource = { group: 'test.meterfeed.io', version: 'v1', plural: 'widgets' };
const target = { resource, kind: 'Widget', name: 'w', uid: 'uid-1' };

const condition = (status: Condition['status'], at = '2026-01-01T00:00:00Z'): Condition => ({
  type: 'Ready',
  status,
  reason: 'Tested',
  message: 'Tested',
  lastTransitionTime: at,
  observedGeneration: 1,
});

let stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(stops.map((stop) => stop()));
  stops = [];
});

function rig() {
  const clock = createManualClock();
  const logger = createCapturingLogger();
  const written: unknown[] = [];
  const answers: RequestOutcome[] = [];
  const server = { uid: 'uid-1' };
  const connection = {
    request: async (_path: string, options: RequestOptions = {}): Promise<RequestOutcome> => {
      written.push((options.body as { status: unknown }).status);
      const metadata = { name: 'w', uid: server.uid, resourceVersion: '1' };
      return answers.shift() ?? { kind: 'ok', status: 200, body: { metadata } };
    },
  };
  const publisher = new StatusPublisher({ connection, clock, logger });
  const stop = new AbortController();
  const running = publisher.run(stop.signal);
  stops.push(async () => {
    stop.abort();
    await running;
  });
  return { clock, logger, written, answers, server, publisher };
}

describe('status publisher', () => {
  test('the same status is written once, however often it is published', async () => {
    const { clock, written, publisher } = rig();
    for (let i = 0; i < 10; i += 1) {
      publisher.publish(target, { lag: 1, conditions: [condition('True', `2026-01-0${i % 9}`)] });
      await clock.advance(60_000);
    }
    expect(written).toHaveLength(1);
  });

  test('numbers that move every second are written once a minute, the last one included', async () => {
    const { clock, written, publisher } = rig();
    for (let lag = 0; lag <= 150; lag += 1) {
      publisher.publish(target, { lag, conditions: [condition('True')] });
      await clock.advance(1_000);
    }
    await clock.advance(60_000);
    expect(written.map((status) => (status as { lag: number }).lag)).toEqual([0, 60, 120, 150]);
  });

  test('each window of ten seconds is written when it closes, not up to a minute later', async () => {
    const { clock, written, publisher } = rig();
    const prompt = { ...target, promptFields: ['lastWindow'] };
    for (let second = 0; second < 40; second += 1) {
      const lastWindow = Math.floor(second / 10);
      publisher.publish(prompt, { lastWindow, lag: second, conditions: [condition('True')] });
      await clock.advance(1_000);
    }
    expect(written.map((status) => (status as { lag: number }).lag)).toEqual([0, 10, 20, 30]);
  });

  test('windows that close every second are written every ten seconds', async () => {
    const { clock, written, publisher } = rig();
    const prompt = { ...target, promptFields: ['lastWindow'] };
    for (let lastWindow = 0; lastWindow < 35; lastWindow += 1) {
      publisher.publish(prompt, { lastWindow, conditions: [condition('True')] });
      await clock.advance(1_000);
    }
    const windows = written.map((status) => (status as { lastWindow: number }).lastWindow);
    expect(windows).toEqual([0, 10, 20, 30]);
  });

  test('a condition that turns is written at once, with the numbers of the moment', async () => {
    const { clock, written, publisher } = rig();
    publisher.publish(target, { lag: 1, conditions: [condition('True')] });
    await clock.advance(1_000);
    publisher.publish(target, { lag: 2, conditions: [condition('True')] });
    publisher.publish(target, { lag: 3, conditions: [condition('False')] });
    await clock.advance(1_000);
    expect(written).toMatchObject([{ lag: 1 }, { lag: 3, conditions: [{ status: 'False' }] }]);
  });

  test('a new generation is acknowledged at once', async () => {
    const { clock, written, publisher } = rig();
    publisher.publish(target, { observedGeneration: 1 });
    await clock.advance(1);
    publisher.publish(target, { observedGeneration: 2 });
    await clock.advance(1);
    expect(written).toEqual([{ observedGeneration: 1 }, { observedGeneration: 2 }]);
  });

  test('numbers that come back to what is written are not written', async () => {
    const { clock, written, publisher } = rig();
    publisher.publish(target, { lag: 1 });
    await clock.advance(1_000);
    publisher.publish(target, { lag: 2 });
    publisher.publish(target, { lag: 1 });
    await clock.advance(120_000);
    expect(written).toEqual([{ lag: 1 }]);
  });

  test('a write that fails is tried again with the newest status', async () => {
    const { clock, logger, written, answers, publisher } = rig();
    answers.push({ kind: 'network', message: 'connect ECONNREFUSED' });
    publisher.publish(target, { lag: 1 });
    await clock.advance(100);
    publisher.publish(target, { lag: 2 });
    await clock.advance(1_000);
    expect(written.at(-1)).toEqual({ lag: 2 });
    expect(logger.lines[0]).toContain('cannot write status: connect ECONNREFUSED');
  });

  test('a deleted object gets no more writes', async () => {
    const { clock, written, answers, publisher } = rig();
    answers.push({ kind: 'status', code: 404, reason: 'NotFound', message: 'gone' });
    publisher.publish(target, { lag: 1 });
    await clock.advance(600_000);
    expect(written).toHaveLength(1);
    publisher.publish(target, { lag: 1 });
    await clock.advance(1);
    publisher.publish(target, { lag: 2 });
    publisher.forget(target.uid);
    await clock.advance(600_000);
    expect(written).toHaveLength(2);
  });

  test('an object created again under its name gets its status at once, and the old one none', async () => {
    const { clock, written, server, publisher } = rig();
    publisher.publish(target, { lag: 1 });
    await clock.advance(1);
    publisher.publish(target, { lag: 2 });
    server.uid = 'uid-2';
    const successor = { ...target, uid: 'uid-2' };
    publisher.publish(successor, { lag: 1 });
    await clock.advance(1);
    publisher.forget(target.uid);
    publisher.publish(successor, { lag: 3 });
    await clock.advance(600_000);
    expect(written).toEqual([{ lag: 1 }, { lag: 1 }, { lag: 3 }]);
  });
});

describe('event recorder', () => {
  const event: KubernetesEvent = {
    regarding: { apiVersion: 'v1', kind: 'Widget', name: 'w', uid: 'uid-1' },
    type: 'Normal',
    reason: 'Bootstrapped',
    action: 'Bootstrap',
    note: 'Bootstrapped',
  };

  function eventRig() {
    const clock = createManualClock();
    const sent: unknown[] = [];
    const answers: RequestOutcome[] = [];
    const connection = {
      request: async (_path: string, options: RequestOptions = {}): Promise<RequestOutcome> => {
        sent.push(options.body);
        return answers.shift() ?? { kind: 'ok', status: 201, body: {} };
      },
    };
    const logger = createCapturingLogger();
    return {
      clock,
      sent,
      answers,
      recorder: new EventRecorder({ connection, clock, logger, instance: 'i' }),
    };
  }

  test('an event that keeps happening is recorded once in five minutes', async () => {
    const { clock, sent, recorder } = eventRig();
    for (let i = 0; i < 600; i += 1) {
      recorder.record(event);
      await clock.advance(1_000);
    }
    await recorder.settled();
    expect(sent).toHaveLength(2);
  });

  test('an event of an id is known to be there when the API server has it already', async () => {
    const { sent, recorder, answers } = eventRig();
    const status = { kind: 'status', reason: '', message: '' } as const;
    answers.push(
      { kind: 'network', message: 'away' },
      { ...status, code: 403 },
      { ...status, code: 409 },
    );
    const outcomes: boolean[] = [];
    for (let i = 0; i < 4; i += 1) outcomes.push(await recorder.recordOnce(event, 'abc123'));
    expect(outcomes).toStrictEqual([false, false, true, true]);
    const names = sent.map((body) => (body as { metadata: { name: string } }).metadata.name);
    expect(new Set(names)).toStrictEqual(new Set(['w.abc123']));
  });

  test('another object, reason or note is another event', async () => {
    const { sent, recorder } = eventRig();
    recorder.record(event);
    recorder.record({ ...event, note: 'Other' });
    recorder.record({ ...event, reason: 'Other' });
    recorder.record({ ...event, regarding: { ...event.regarding, uid: 'other' } });
    await recorder.settled();
    expect(sent).toHaveLength(4);
  });

  test('a storm of different events neither floods the API server nor fills the memory', async () => {
    const { sent, recorder } = eventRig();
    for (let i = 0; i < 10_000; i += 1) recorder.record({ ...event, note: `Note ${i}` });
    await recorder.settled();
    expect(sent).toHaveLength(100);
  });
});
