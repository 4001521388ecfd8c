import { expect, test } from 'vitest';
import { Turn } from '../telemetry/turn.ts';
import { QueuedArrivals } from './queued-arrivals.ts';
import { createCapturingLogger } from './testing/capturing-logger.ts';

const arrival = { at: 0, knownUntil: 0, late: false };
const object = (name: string) => ({ uid: name, namespace: '', name });

/** Arrivals of one watch, and what its handler has got so far. */
function createScene() {
  const logger = createCapturingLogger();
  const arrivals = new QueuedArrivals(logger);
  const got: string[] = [];
  const handler = arrivals.handler({
    upserted: ({ name }) => {
      if (name === 'bad') throw new Error('no such thing');
      got.push(name);
    },
    deleted: ({ name }) => got.push(`${name} gone`),
  });
  return { logger, arrivals, got, handler };
}

test('what arrives while a window is measured changes nothing until then, and comes in its order', async () => {
  const { arrivals, got, handler } = createScene();
  arrivals.begin();
  handler.upserted(object('a'), undefined, arrival);
  handler.deleted(object('a'), arrival);
  expect(got).toStrictEqual([]);
  // Each look at the clock takes longer than a turn.
  let now = 0;
  const turn = new Turn({ monotonic: () => (now += 30) });
  const released = arrivals.releaseInTurns(turn);
  handler.upserted(object('b'), undefined, arrival);
  await released;
  handler.upserted(object('c'), undefined, arrival);
  expect(got).toStrictEqual(['a', 'a gone', 'b', 'c']);
});

test('one change that cannot be applied costs nobody else theirs', async () => {
  const { arrivals, got, handler, logger } = createScene();
  arrivals.begin();
  for (const name of ['bad', 'good']) handler.upserted(object(name), undefined, arrival);
  await arrivals.releaseInTurns(new Turn({ monotonic: () => 0 }));
  expect(got).toStrictEqual(['good']);
  expect(logger.lines).toStrictEqual(['error [controller] a change that waited cannot be applied']);
  expect(arrivals.isQueueing).toBe(false);
});
