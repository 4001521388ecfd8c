import { expect, test } from 'vitest';
import { settleCredits } from './credits.ts';
import { addTo, createTally } from './tally.ts';
import { TenantLog } from './tenant-log.ts';

const MINUTE = 60_000;

/** What a pod in a namespace of its own was charged from the start of a window of a minute on. */
function charged(namespace: string, to: number) {
  const charge = createTally().charge({
    tenant: 'x',
    metric: 'tenant_cpu_core_hours',
    region: 'r',
    resource_id: namespace,
  });
  const object = { uid: namespace, namespace: 'host', name: namespace };
  const evidence = { kind: 'Pod', object, state: {}, from: 0, to, carried: false } as const;
  addTo(charge, { carried: false, weight: 1, ms: to }, 1_000_000_000n, evidence);
  return charge;
}

/** Closes minutes with the charges of each, and tells how many charges are known after the last one. */
function close(log: TenantLog, minutes: readonly (readonly ReturnType<typeof charged>[])[]) {
  return minutes.map((charges, index) => {
    const window = { start: index * MINUTE, end: (index + 1) * MINUTE };
    const { settled } = settleCredits(charges, [], window.end, MINUTE);
    return log.close(settled, window);
  });
}

test('what goes on without an event for half an hour is told anew', () => {
  const log = new TenantLog();
  const [first, ...others] = close(log, [
    [charged('stays', MINUTE)],
    ...Array.from({ length: 30 }, () => []),
    [charged('stays', MINUTE)],
  ]);
  expect(first?.changes?.charges).toHaveLength(1);
  expect(others.at(-1)?.changes?.charges).toEqual([]);
});

test('what goes on unchanged takes no room in the windows after its first', () => {
  const log = new TenantLog();
  const [, second] = close(log, [[charged('stays', MINUTE)], [charged('stays', MINUTE)]]);
  expect(second).toEqual({ changes: undefined, amounts: { spans: [], nanos: [] } });
});

test('objects that come in another order than in the window before go on, each as itself', () => {
  const log = new TenantLog();
  const objects = Array.from({ length: 30 }, (_, index) => `o${index}`);
  const window = (names: readonly string[]) => {
    const identity = { tenant: 'x', metric: 'tenant_cpu_core_hours', region: 'r' };
    const charge = createTally().charge({ ...identity, resource_id: 'c' });
    for (const name of names) {
      // Each is there twice, on two nodes.
      for (const node of ['n1', 'n2']) {
        const object = { uid: name, namespace: 'host', name };
        const bounds = { from: 0, to: MINUTE, carried: false } as const;
        const evidence = { kind: 'Pod', object, state: { node }, ...bounds } as const;
        addTo(charge, { carried: false, weight: 1, ms: MINUTE }, 1_000_000_000n, evidence);
      }
    }
    return [charge];
  };
  const [first, second, third] = close(log, [
    window(objects),
    window(objects.toReversed()),
    window(objects.toReversed().slice(1)),
  ]);
  expect(first?.changes?.spans).toHaveLength(60);
  expect(second).toEqual({ changes: undefined, amounts: { spans: [], nanos: [] } });
  // The last two have ended with the window before.
  expect(third?.changes?.spans).toEqual([]);
  expect(third?.changes?.ended).toEqual([
    [58, 0],
    [59, 0],
  ]);
});
