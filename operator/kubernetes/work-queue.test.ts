import * as fc from 'fast-check';
import { Registry } from 'prom-client';
import { describe, expect, test } from 'vitest';
import { createWorkQueueMetrics } from './metrics.ts';
import { createCapturingLogger } from './testing/capturing-logger.ts';
import { createManualClock } from './testing/manual-clock.ts';
import { type WorkOutcome, WorkQueue, type WorkQueueOptions } from './work-queue.ts';

interface Job {
  readonly key: string;
  finish(outcome?: WorkOutcome): Promise<void>;
  throw(error: Error): Promise<void>;
}

const settle = (): Promise<void> => new Promise(setImmediate);

/** A queue whose work the test ends. */
function rig(options: Partial<WorkQueueOptions> = {}) {
  const clock = createManualClock();
  const logger = createCapturingLogger();
  const registry = new Registry();
  const stop = new AbortController();
  const under: Job[] = [];
  const started: string[] = [];
  const queue = new WorkQueue({
    name: 'test',
    clock,
    logger,
    metrics: createWorkQueueMetrics(registry),
    process: (key) =>
      new Promise((resolve, reject) => {
        started.push(key);
        const end = async (act: () => void): Promise<void> => {
          under.splice(under.indexOf(job), 1);
          act();
          await settle();
        };
        const job: Job = {
          key,
          finish: (outcome = { kind: 'done' }) => end(() => resolve(outcome)),
          throw: (error) => end(() => reject(error)),
        };
        under.push(job);
      }),
    ...options,
  });
  const running = queue.run(stop.signal);
  const finish = async (outcome?: WorkOutcome): Promise<void> => {
    const [job] = under;
    if (job === undefined) throw new Error('nothing is under way');
    await job.finish(outcome);
  };
  return {
    clock,
    logger,
    queue,
    registry,
    started,
    under,
    finish,
    stop: async () => {
      stop.abort();
      while (under.length > 0) await under[0]?.finish();
      await running;
    },
    stopNow: () => {
      stop.abort();
      return running;
    },
    metric: async (name: string) => {
      const { values = [] } = (await registry.getSingleMetric(`workqueue_${name}`)?.get()) ?? {};
      return values.find(({ labels }) => labels['name'] === 'test')?.value;
    },
  };
}

describe('work queue', () => {
  test('a hundred changes of one object are worked on once, not a hundred times', async () => {
    const { queue, started, finish, stop } = rig();
    queue.add('busy');
    for (let i = 0; i < 100; i += 1) queue.add('x');
    expect(queue.depth).toBe(1);
    await finish();
    await finish();
    expect(started).toEqual(['busy', 'x']);
    await stop();
  });

  test('a change during the work is not lost: the key is worked on once more', async () => {
    const { queue, started, finish, stop } = rig();
    queue.add('x');
    queue.add('x');
    queue.add('x');
    expect(started).toEqual(['x']);
    await finish();
    expect(started).toEqual(['x', 'x']);
    await finish();
    expect(started).toHaveLength(2);
    await stop();
  });

  test('one key never runs twice at once, however much concurrency there is', async () => {
    const { queue, under, stop } = rig({ concurrency: 4 });
    queue.add('x');
    queue.add('x');
    queue.add('y');
    expect(under.map(({ key }) => key)).toEqual(['x', 'y']);
    await stop();
  });

  test('a slow key does not hold up the others', async () => {
    const { queue, started, under, stop } = rig({ concurrency: 2 });
    queue.add('slow');
    for (const key of ['a', 'b', 'c']) {
      queue.add(key);
      await under.find((job) => job.key === key)?.finish();
    }
    expect(started).toEqual(['slow', 'a', 'b', 'c']);
    await stop();
  });

  test('a failing key is tried again after doubling delays up to the cap, others are not delayed', async () => {
    const { queue, clock, under, finish, stop } = rig({ retryBaseMs: 100, retryCapMs: 500 });
    queue.add('x');
    for (const delay of [100, 200, 400, 500, 500]) {
      await finish({ kind: 'failed', reason: 'not now' });
      await clock.advance(delay - 1);
      expect(under).toHaveLength(0);
      await clock.advance(1);
      expect(under.map(({ key }) => key)).toEqual(['x']);
    }
    await stop();
  });

  test('a success starts the delays over', async () => {
    const { queue, clock, under, finish, stop } = rig({ retryBaseMs: 100 });
    queue.add('x');
    await finish({ kind: 'failed', reason: 'not now' });
    await clock.advance(100);
    await finish({ kind: 'done' });
    queue.add('x');
    await finish({ kind: 'failed', reason: 'not now' });
    await clock.advance(100);
    expect(under).toHaveLength(1);
    await stop();
  });

  test('a change of a failing object is processed at once, not after its delay', async () => {
    const { queue, started, finish, stop } = rig({ retryBaseMs: 100_000 });
    queue.add('x');
    await finish({ kind: 'failed', reason: 'not now' });
    queue.add('x');
    expect(started).toEqual(['x', 'x']);
    await stop();
  });

  test('an exception is a failure like any other, and is logged', async () => {
    const { queue, logger, clock, started, under, stop } = rig({ retryBaseMs: 100 });
    queue.add('x');
    await under[0]?.throw(new Error('bug'));
    expect(logger.lines[0]).toBe('error [controller] test: processing threw: "x"');
    await clock.advance(100);
    expect(started).toEqual(['x', 'x']);
    await stop();
  });

  test('of several delays for one key the shortest counts, and only it', async () => {
    const { queue, clock, started, finish, stop } = rig();
    queue.addAfter('x', 5_000);
    queue.addAfter('x', 1_000);
    queue.addAfter('x', 3_000);
    await clock.advance(1_000);
    expect(started).toEqual(['x']);
    await finish();
    await clock.advance(60_000);
    expect(started).toEqual(['x']);
    await stop();
  });

  test('work that requests another run runs again', async () => {
    const { queue, clock, started, finish, stop } = rig();
    queue.add('x');
    await finish({ kind: 'again', afterMs: 30_000 });
    await clock.advance(30_000);
    expect(started).toEqual(['x', 'x']);
    await stop();
  });

  test('stopping waits for what is under way, starts nothing more and leaves no timer', async () => {
    const { queue, clock, started, finish, stopNow } = rig();
    queue.add('x');
    queue.add('y');
    queue.addAfter('z', 1_000);
    let stopped = false;
    const stopping = stopNow().then(() => {
      stopped = true;
    });
    await settle();
    expect(stopped).toBe(false);
    await finish({ kind: 'failed', reason: 'too late' });
    await stopping;
    queue.add('later');
    queue.addAfter('later', 1);
    expect(started).toEqual(['x']);
    expect(clock.sleepers).toBe(0);
  });

  test('what is added before the queue runs is worked on when it does', async () => {
    const done: string[] = [];
    const queue = new WorkQueue({
      name: 'early',
      clock: createManualClock(),
      logger: createCapturingLogger(),
      process: (key) => {
        done.push(key);
        return Promise.resolve({ kind: 'done' });
      },
    });
    queue.add('x');
    expect(done).toEqual([]);
    const stop = new AbortController();
    const running = queue.run(stop.signal);
    await settle();
    stop.abort();
    await running;
    expect(done).toEqual(['x']);
  });

  test('the metrics that dashboards for controllers expect are there and right', async () => {
    const { queue, clock, finish, metric, stop } = rig({ retryBaseMs: 100 });
    queue.add('x');
    queue.add('y');
    await clock.advance(2_000);
    expect(await metric('depth')).toBe(1);
    expect(await metric('adds_total')).toBe(2);
    expect(await metric('unfinished_work_seconds')).toBe(2);
    expect(await metric('longest_running_processor_seconds')).toBe(2);
    await finish({ kind: 'failed', reason: 'not now' });
    expect(await metric('retries_total')).toBe(1);
    expect(await metric('depth')).toBe(0);
    await stop();
  });
});

test('no added key is ever left without a later run, and none runs twice at once', async () => {
  type Step =
    | { readonly kind: 'add' | 'addAfter'; readonly key: string }
    | { readonly kind: 'done' | 'fail' | 'again' | 'wait' };
  const keys = fc.constantFrom('a', 'b', 'c');
  const steps: fc.Arbitrary<Step> = fc.oneof(
    fc.record({ kind: fc.constantFrom('add', 'addAfter'), key: keys }),
    fc.record({ kind: fc.constantFrom('done', 'fail', 'again', 'wait') }),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(steps, { maxLength: 60 }),
      fc.integer({ min: 1, max: 3 }),
      async (script, concurrency) => {
        const { queue, clock, under, started, finish, stop } = rig({
          concurrency,
          retryBaseMs: 10,
        });
        /** Number of runs started when the key was last added. */
        const owed = new Map<string, number>();
        const check = (): void => {
          expect(under.length).toBeLessThanOrEqual(concurrency);
          expect(new Set(under.map(({ key }) => key)).size).toBe(under.length);
        };
        for (const step of script) {
          switch (step.kind) {
            case 'add':
              owed.set(step.key, started.length);
              queue.add(step.key);
              // Started within the call if there was room.
              if (started.at(-1) === step.key && started.length > (owed.get(step.key) ?? 0)) {
                owed.delete(step.key);
              }
              break;
            case 'addAfter':
              queue.addAfter(step.key, 50);
              break;
            case 'wait':
              await clock.advance(50);
              break;
            default:
              if (under.length === 0) break;
              if (step.kind === 'done') await finish();
              if (step.kind === 'fail') await finish({ kind: 'failed', reason: 'scripted' });
              if (step.kind === 'again') await finish({ kind: 'again', afterMs: 20 });
          }
          check();
        }
        while (under.length > 0 || clock.sleepers > 0) {
          while (under.length > 0) await finish();
          await clock.advance(100_000);
          check();
        }
        for (const [key, since] of owed) expect(started.slice(since)).toContain(key);
        expect(queue.depth).toBe(0);
        await stop();
      },
    ),
    { numRuns: 200 },
  );
});
