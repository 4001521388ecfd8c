import { afterEach, describe, expect, test } from 'vitest';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { createManualClock } from '../../kubernetes/testing/manual-clock.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { ForeignReader, type ReaderLimits } from './foreign-reader.ts';

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

function start(limits: Partial<ReaderLimits> = {}, clock: Clock = systemClock) {
  const logger = createCapturingLogger();
  let deaths = 0;
  const reader = new ForeignReader({
    clock,
    random: () => 0.1,
    logger,
    onDeath: () => (deaths += 1),
    limits,
  });
  closers.push(() => reader.close());
  const stop = new AbortController();
  const read = (owner: string, text: string, what: 'page' | 'events' = 'page') =>
    reader.of(owner)({ what, plural: 'nodes', bytes: encoded(text) }, stop.signal);
  return { reader, read, logger, stop, deaths: () => deaths };
}

function encoded(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

const node = (name: string, more: object = {}) => ({
  metadata: { name, uid: `uid-${name}`, resourceVersion: '7', ...more },
});
const pageOf = (items: readonly unknown[]): string =>
  JSON.stringify({ metadata: { resourceVersion: '9' }, items });
const page = (...items: readonly unknown[]): string => pageOf(items);
const GOOD = page(node('good'));
const isGood = {
  kind: 'page',
  body: { metadata: { resourceVersion: '9' }, items: [{ metadata: { name: 'good' } }] },
};
/** As many texts as an answer may have, each so long that a small heap cannot hold them. */
const large = (): string => pageOf(Array.from({ length: 100_000 }, () => 'x'.repeat(300)));

describe('the thread that reads tenant APIs ends', () => {
  test('out of memory over one tenant cluster’s page: the process goes on, and the other’s is read', async () => {
    const { read, deaths, logger } = start({ heapMiB: 24, answerMs: 120_000 });
    expect(await read('honest', GOOD)).toMatchObject(isGood);
    const bad = read('hostile', large());
    const meanwhile = read('honest', GOOD);
    expect(await bad).toEqual({
      kind: 'failed',
      reason: 'its answer ended the thread that reads it: ERR_WORKER_OUT_OF_MEMORY',
    });
    expect(await meanwhile).toMatchObject(isGood);
    // A second time within an hour is no accident.
    expect(await read('hostile', large())).toMatchObject({ kind: 'refused' });
    expect(deaths()).toBe(2);
    expect(logger.lines.join()).toContain('over nodes of tenant cluster hostile');
    expect(await read('honest', GOOD)).toMatchObject(isGood);
  }, 120_000);

  test('it is ended when an answer takes longer than it may', async () => {
    // Less than a thread needs to begin.
    const { read, deaths } = start({ answerMs: 1 });
    expect(await read('slow', GOOD)).toEqual({
      kind: 'failed',
      reason: 'its answer ended the thread that reads it: it took longer than 0.001 seconds',
    });
    expect(deaths()).toBe(1);
  });

  test('what waits when all of it stops is answered', async () => {
    const { reader, read } = start();
    const waiting = [read('a', GOOD), read('b', GOOD)];
    await reader.close();
    for (const answer of waiting) expect(await answer).toMatchObject({ kind: 'failed' });
    expect(await read('a', GOOD)).toMatchObject({ kind: 'failed', reason: 'aborted' });
  });
});

describe('one tenant cluster takes the thread from all others', () => {
  test('whoever has taken least of it comes first', async () => {
    const { read } = start();
    const nodes = Array.from({ length: 1_000 }, (_, index) => node(`n${index}`));
    const order: string[] = [];
    const note = (who: string) => () => void order.push(who);
    await read('hostile', page(...nodes));
    const many = Array.from({ length: 10 }, () =>
      read('hostile', page(...nodes)).then(note('hostile')),
    );
    await Promise.all([...many, read('honest', GOOD).then(note('honest'))]);
    expect(order.indexOf('honest')).toBeLessThanOrEqual(1);
  });

  test('floods of all together leave half of the main thread to everybody else', async () => {
    const clock = createManualClock();
    const { read } = start({}, clock);
    void read('a', GOOD).then(() => clock.advance(40));
    let isRead = false;
    const next = read('b', GOOD).then(() => (isRead = true));
    expect(await clock.sleeper()).toBe(40);
    expect(isRead).toBe(false);
    await clock.advance(40);
    await next;
  });

  test('beyond a share of each minute its API is left alone', async () => {
    const { read } = start({ cpuMs: 0 });
    let answer = await read('hostile', GOOD);
    // A single small answer may take less than the clock can tell.
    while (answer.kind !== 'refused') answer = await read('hostile', GOOD);
    expect(answer).toEqual({
      kind: 'refused',
      reason: 'more than 0 seconds of reading in a minute',
    });
  });

  test('what waits is bounded: whoever has most of it gives way', async () => {
    const { read } = start({ waitingBytes: 3_000 });
    const tenNodes = page(...Array.from({ length: 10 }, (_, index) => node(`n${index}`)));
    const answers = Array.from({ length: 8 }, () => read('hostile', tenNodes));
    expect(await read('honest', GOOD)).toMatchObject(isGood);
    const kinds = (await Promise.all(answers)).map(({ kind }) => kind);
    expect(kinds).toContain('page');
    expect(kinds).toContain('failed');
  });

  test('what nobody waits for any more is not read', async () => {
    const { read, stop } = start();
    const first = read('a', GOOD);
    const second = read('a', GOOD);
    stop.abort();
    expect(await second).toMatchObject({ kind: 'failed', reason: 'aborted' });
    expect(await first).toMatchObject({ reason: 'aborted' });
  });
});
