import { describe, expect, test } from 'vitest';
import { ApiLimiter, FirstLists, DEFAULT_LIMITS, type TenantLimits } from './limits.ts';
import { SharedMemory } from './memory.ts';
import { withoutAbsence } from './tenant-watches.ts';

const object = (uid: string, name = uid) => ({ uid, name, namespace: '' });
const arrival = { at: 0, knownUntil: 0, late: false };

function setUp(limits: Partial<TenantLimits>) {
  const reported: string[] = [];
  let now = 0;
  let states = 0;
  const limiter = new ApiLimiter({
    limits: { ...DEFAULT_LIMITS, objects: 1e9, bytes: 1e9, changes: 1e9, ...limits },
    now: () => now,
    onExceeded: (reason) => reported.push(reason),
    firstLists: new FirstLists(),
    memory: new SharedMemory(),
    isListed: () => true,
    states: () => states,
  });
  return {
    limiter,
    reported,
    remember: (count: number) => void (states = count),
    pass: (ms: number) => void (now += ms),
  };
}

describe('what one tenant’s API may take up', () => {
  test('is counted over all kinds, and an object that goes makes room', () => {
    const { limiter, reported } = setUp({ objects: 2 });
    const nodes = limiter.handler('nodes');
    const pods = limiter.handler('pods');
    nodes.upserted(object('a'), undefined, arrival);
    pods.upserted(object('b'), undefined, arrival);
    pods.upserted(object('b', 'renamed'), object('b'), arrival);
    pods.deleted(object('b', 'renamed'), arrival);
    pods.upserted(object('c'), undefined, arrival);
    expect(reported).toEqual([]);
    pods.upserted(object('d'), undefined, arrival);
    expect(reported).toEqual(['more than 2 objects']);
  });

  test('counts what came out of the journal, once', () => {
    const { limiter, reported } = setUp({ objects: 2 });
    limiter.adopt('nodes', [object('a'), object('b')]);
    limiter.adopt('nodes', [object('a'), object('b')]);
    expect(reported).toEqual([]);
    limiter.handler('nodes').upserted(object('c'), undefined, arrival);
    expect(reported).toEqual(['more than 2 objects']);
  });

  test('is measured in bytes too: few objects may be large', () => {
    const { limiter, reported } = setUp({ bytes: 1000 });
    const nodes = limiter.handler('nodes');
    nodes.upserted(object('a'), undefined, arrival);
    nodes.upserted(object('a', 'x'.repeat(2000)), object('a'), arrival);
    expect(reported).toEqual(['objects of more than 1000 bytes']);
  });

  test('is what it was, too: slow changes of few objects fill the memory while no window is closed', () => {
    const { limiter, reported, pass, remember } = setUp({ states: 5_000 });
    const nodes = limiter.handler('nodes');
    const change = (times: number): void => {
      for (let count = 0; count < times; count += 1) {
        nodes.upserted(object('a'), object('a'), arrival);
        pass(1_000);
      }
    };
    remember(5_000);
    change(1_000);
    expect(reported).toEqual([]);
    remember(5_001);
    change(1_000);
    expect(reported).toEqual(['more than 5000 states of objects since the last closed window']);
  });

  test('is a rate as well: one object that changes all the time is too much, one that changes often is not', () => {
    const { limiter, reported, pass } = setUp({ changes: 3 });
    const nodes = limiter.handler('nodes');
    for (let change = 0; change < 9; change += 1) {
      nodes.upserted(object('a'), object('a'), arrival);
      if (change % 3 === 2) pass(10_000);
    }
    expect(reported).toEqual([]);
    for (let change = 0; change < 9; change += 1) {
      nodes.upserted(object('a'), object('a'), arrival);
    }
    expect(reported).toEqual(['more than 3 changes in 10 seconds']);
  });
});

describe('many tenants’ first lists without an end fill the memory together', () => {
  const limits = { ...DEFAULT_LIMITS, objects: 1e9, bytes: 1e9, changes: 1e9 };

  function tenants(count: number) {
    const firstLists = new FirstLists(10);
    return Array.from({ length: count }, () => {
      const reported: string[] = [];
      let listed = false;
      const limiter = new ApiLimiter({
        limits,
        now: () => 0,
        onExceeded: (reason) => reported.push(reason),
        firstLists,
        memory: new SharedMemory(),
        isListed: () => listed,
        states: () => 0,
      });
      const nodes = limiter.handler('nodes');
      let next = 0;
      const bring = (objects: number): void => {
        for (let i = 0; i < objects; i += 1)
          nodes.upserted(object(`${next++}`), undefined, arrival);
      };
      return { reported, limiter, bring, complete: () => void (listed = true) };
    });
  }

  test('the largest of them is left alone, and the others go on', () => {
    const [large, small] = tenants(2);
    large?.bring(8);
    small?.bring(3);
    expect(large?.reported).toHaveLength(1);
    expect(small?.reported).toEqual([]);
    small?.bring(7);
    expect(small?.reported).toEqual([]);
  });

  test('a list that is complete does not count, and what the journal knew neither', () => {
    const [complete, restored, next] = tenants(3);
    complete?.bring(9);
    complete?.complete();
    restored?.limiter.adopt(
      'nodes',
      Array.from({ length: 50 }, (_, i) => object(`${i}`)),
    );
    next?.bring(9);
    expect([complete, restored, next].flatMap((each) => each?.reported)).toEqual([]);
  });
});

test('a server that knows no nodes is none: its 404 does not mean that there are none', async () => {
  const notFound = { kind: 'status', code: 404, reason: 'NotFound', message: 'no' } as const;
  const connection = withoutAbsence({
    request: () => Promise.resolve(notFound),
    stream: () => Promise.resolve(notFound),
  });
  expect((await connection.request('/api/v1/nodes')).kind).toBe('network');
  const { signal } = new AbortController();
  expect((await connection.stream('/api/v1/nodes', { signal })).kind).toBe('network');
});
