import { expect, test } from 'vitest';
import { settleReversals } from './reversals.ts';
import type { AllocatedGpus } from '../timelines/gpu-device.ts';
import { addTo, createTally, type Evidence } from './tally.ts';
import { TenantLog } from './tenant-log.ts';

const MINUTE = 60_000;
const NO_REQUESTS = { cpu: 0n, memory: 0n, extended: new Map<string, number>() };
const COMPLETE_GPU: AllocatedGpus = {
  device: { type: 'H100', profile: 'full', units: 7n },
  devices: 1,
  units: 7n,
};

/** The charge of a pod in a namespace of its own, from the start of a one-minute window on. */
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

/** Closes minutes with their charges; returns how many charges are known after the last one. */
function close(log: TenantLog, minutes: readonly (readonly ReturnType<typeof charged>[])[]) {
  return minutes.map((charges, index) => {
    const window = { start: index * MINUTE, end: (index + 1) * MINUTE };
    const { settled } = settleReversals(charges, [], window.end, MINUTE);
    return log.close(settled, window);
  });
}

test('a span without an event for half an hour is listed again', () => {
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

type Given = Pick<Evidence, 'kind' | 'object' | 'state' | 'node' | 'mapped' | 'gpus'>;

const POD: Given = {
  kind: 'Pod',
  object: { uid: 'u', namespace: 'host', name: 'p' },
  state: { node: 'n1', size: 1n },
};

/** One charge of a full minute for each of these. */
function chargeOf(given: readonly Given[]) {
  const identity = { tenant: 'x', metric: 'tenant_cpu_core_hours', region: 'r', resource_id: 'c' };
  const charge = createTally().charge(identity);
  for (const one of given) {
    const evidence = { ...one, from: 0, to: MINUTE, carried: false } as const;
    addTo(charge, { carried: false, weight: 1, ms: MINUTE }, 1_000_000_000n, evidence);
  }
  return charge;
}

test('objects that come in another order than in the window before go on, each as itself', () => {
  // Each occurs twice, like an object with GPUs of two kinds.
  const objects = Array.from({ length: 60 }, (_, index): Given => {
    const name = `o${index % 30}`;
    return { ...POD, object: { uid: name, namespace: 'host', name } };
  });
  const mixed = objects.map((_, index) => objects.at((index * 13) % 60) ?? POD);
  const log = new TenantLog();
  const [first, second, third] = close(log, [
    [chargeOf(objects)],
    [chargeOf(mixed)],
    [chargeOf(mixed.slice(1))],
  ]);
  expect(first?.changes?.spans).toHaveLength(60);
  expect(second).toEqual({ changes: undefined, amounts: { spans: [], nanos: [] } });
  expect(third?.changes?.spans).toEqual([]);
  expect(third?.changes?.ended.map(([, to]) => to)).toEqual([0]);
});

test.each<[string, Partial<Given>]>([
  ['another object of its name', { object: { ...POD.object, uid: 'v' } }],
  ['another name', { object: { ...POD.object, name: 'q' } }],
  ['another namespace', { object: { ...POD.object, namespace: 'guest' } }],
  ['another kind', { kind: 'Service' }],
  ['other labels', { state: { ...POD.state, labels: {} } }],
  ['other requests', { state: { ...POD.state, requests: NO_REQUESTS } }],
  ['another size', { state: { ...POD.state, size: 2n } }],
  ['another node', { state: { ...POD.state, node: 'n2' } }],
  ['a Namespace that is mapped', { mapped: true }],
  ['GPUs', { gpus: COMPLETE_GPU }],
])('the explanation of a charge does not go on with what it was: %s', (_what, change) => {
  const log = new TenantLog();
  const [, second] = close(log, [[chargeOf([POD])], [chargeOf([{ ...POD, ...change }])]]);
  expect(second?.changes?.spans).toHaveLength(1);
  expect(second?.changes?.ended).toEqual([[0, 0]]);
});

test.each<[string, AllocatedGpus]>([
  ['more devices', { ...COMPLETE_GPU, devices: 2 }],
  ['a part', { ...COMPLETE_GPU, units: 1n }],
  ['counted as devices', { ...COMPLETE_GPU, asDevices: 1n }],
  ['another model', { ...COMPLETE_GPU, device: { ...COMPLETE_GPU.device, type: 'A100' } }],
  ['another profile', { ...COMPLETE_GPU, device: { ...COMPLETE_GPU.device, profile: 'mig' } }],
])('nor with the GPUs that it had: %s', (_what, gpus) => {
  const log = new TenantLog();
  const before = { ...POD, gpus: COMPLETE_GPU };
  const same = { ...POD, gpus: { ...COMPLETE_GPU, device: { ...COMPLETE_GPU.device } } };
  const [, second, third] = close(log, [
    [chargeOf([before])],
    [chargeOf([same])],
    [chargeOf([{ ...POD, gpus }])],
  ]);
  expect(second?.changes).toBeUndefined();
  expect(third?.changes?.spans).toHaveLength(1);
  expect(third?.changes?.ended).toEqual([[0, 0]]);
});
