import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Ledger } from '../ledger/ledger.ts';
import { createMemoryLedger } from '../ledger/testing/memory-ledger.ts';
import { cluster } from '../metering/meters/testing/objects.ts';
import { START } from '../metering/meters/testing/times.ts';
import { decodeGpuRows, GPU_UTILIZATION } from '../metering/windows/gpu-history/gpu-series.ts';
import {
  type FakePrometheus,
  type FakeRow,
  startFakePrometheus,
} from './testing/fake-prometheus.ts';
import { clockAt, eventsOf, historyOf, type PrometheusRun, live } from './testing/life.ts';

const H100 = 'NVIDIA H100 80GB HBM3';
const a = cluster('a', { egressQuery: 'none' }, { tenant: 'acme' });
const b = cluster('b', { egressQuery: 'none' }, { tenant: 'globex', namespace: 'tenant-b' });

let prometheus: FakePrometheus;
let ledger: Ledger;
const lives: PrometheusRun[] = [];
beforeEach(async () => {
  prometheus = await startFakePrometheus();
  ledger = createMemoryLedger();
});
afterEach(async () => {
  for (const life of lives.splice(0)) await life.kill();
  await prometheus.close();
});

async function begin(clock = clockAt(0)): Promise<PrometheusRun> {
  const life = await live({
    clock,
    history: historyOf(clock, a, b),
    ledger,
    environment: { PROMETHEUS_URL: prometheus.url },
  });
  lives.push(life);
  return life;
}

function gpu(namespace: string, uuid: string, percent: string): FakeRow {
  return [{ namespace, UUID: uuid, modelName: H100 }, percent];
}

/** Percent and device-hours by tenant, of a record. */
async function utilizationOf(key: string): Promise<Record<string, readonly [number, number]>> {
  const text = (await ledger.record(`gpus/utilization/${key}`)) ?? '{}';
  return Object.fromEntries(
    decodeGpuRows(GPU_UTILIZATION, text).map(({ tenant, amounts: [busy = 0n, measured = 0n] }) => [
      tenant,
      [Number(busy) / Number(measured) / 1e6, Number(measured) / 3_600_000],
    ]),
  );
}

test('GPUs that do nothing are known to do nothing, though that is no event; of others nothing is known', async () => {
  prometheus.answer = () => [
    gpu('tenant-a', 'GPU-1', '0'),
    gpu('tenant-a', 'GPU-2', '0'),
    gpu('stranger', 'GPU-3', '90'),
  ];
  const life = await begin();
  await life.pass(91);
  expect(await eventsOf(ledger)).toEqual([]);
  expect(await utilizationOf('window/2026-03-01T12:00:00Z')).toEqual({ acme: [0, 2 / 60] });
});

test('a window that is answered late counts once, in its own hour, whatever was answered before', async () => {
  const hour = 3_600_000;
  let isSilent = false;
  prometheus.answer = ({ time }) => {
    const first = Number(time) * 1000 === START + hour;
    if (first && isSilent)
      return { status: 422, body: '{"status":"error","errorType":"execution"}' };
    return [gpu('tenant-a', 'GPU-1', first ? '80' : '20'), gpu('tenant-b', 'GPU-2', '50')];
  };
  isSilent = true;
  const clock = clockAt(3540);
  const life = await begin(clock);
  await life.pass(60 + 31 + 120);
  expect(await utilizationOf('hour/2026-03-01T12')).toEqual({});
  isSilent = false;
  await life.pass(600);
  expect(await utilizationOf('hour/2026-03-01T12')).toEqual({
    acme: [80, 1 / 60],
    globex: [50, 1 / 60],
  });
  const later = await utilizationOf('hour/2026-03-01T13');
  const [percent, hours = 0] = later['acme'] ?? [];
  expect(percent).toBe(20);
  const windows = (await Array.fromAsync(ledger.records('gpus/utilization/window/'))).length - 1;
  expect(hours * 60).toBeCloseTo(windows, 9);
});
