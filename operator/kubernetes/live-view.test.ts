import { expect, test } from 'vitest';
import { TimeSlice } from '../telemetry/time-slice.ts';
import { LiveView, QueuedArrivals } from './live-view.ts';
import { identify } from './resource.ts';
import type { Projected, SourceHandler } from './source.ts';
import { createCapturingLogger } from './testing/capturing-logger.ts';

const arrival = { at: 0, knownUntil: 0, late: false };
const object = (name: string) => ({ metadata: { uid: name, name, resourceVersion: '1' } });

/** A view whose changes may wait, and the changes that its handler has received. */
function createScene() {
  const logger = createCapturingLogger();
  const arrivals = new QueuedArrivals(logger);
  const got: string[] = [];
  const handler: SourceHandler<Projected> = {
    upserted: ({ name }) => {
      if (name === 'bad') throw new Error('no such thing');
      got.push(name);
    },
    deleted: ({ name }) => got.push(`${name} gone`),
  };
  const view = new LiveView<Projected>({
    project: identify,
    handlers: [handler],
    arrivals,
    logger,
    resource: 'widgets',
    initial: [],
    onHandlerFailure: () => undefined,
  });
  return { logger, arrivals, got, view };
}

test('what arrives while a window is measured changes nothing until then, and comes in its order', async () => {
  const { arrivals, got, view } = createScene();
  arrivals.begin();
  view.upsert(object('a'), arrival);
  view.remove(object('a'), arrival);
  expect(got).toStrictEqual([]);
  // Each reading of the clock takes longer than a slice.
  let now = 0;
  const slice = new TimeSlice({ monotonic: () => (now += 30) });
  const released = arrivals.releaseInSlices(slice);
  view.upsert(object('b'), arrival);
  await released;
  view.upsert(object('c'), arrival);
  expect(got).toStrictEqual(['a', 'a gone', 'b', 'c']);
});

test('one change that cannot be applied costs nobody else theirs', async () => {
  const { arrivals, got, view, logger } = createScene();
  arrivals.begin();
  for (const name of ['bad', 'good']) view.upsert(object(name), arrival);
  await arrivals.releaseInSlices(new TimeSlice({ monotonic: () => 0 }));
  expect(got).toStrictEqual(['good']);
  expect(logger.lines).toStrictEqual(['error [controller] a change that waited cannot be applied']);
  expect(arrivals.isQueueing).toBe(false);
});
