import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { createCapturingLogger } from '../../kubernetes/testing/capturing-logger.ts';
import { createDiagnostics, type Diagnostics } from '../meters/meter-reports.ts';
import { UNITS_PER_GPU } from '../../model/gpu-units.ts';
import { createCollectorMetrics } from './collector-metrics.ts';
import { unattributedReport, UnattributedWatch } from './unattributed-report.ts';

const REASON = 'managed by "a", which is no tenant cluster of its namespace';

/** Objects by name, with the GPU-seconds of each. */
function found(objects: Readonly<Record<string, number>>): Diagnostics {
  const diagnostics = createDiagnostics();
  for (const [name, seconds] of Object.entries(objects)) {
    const gpu = UNITS_PER_GPU * BigInt(seconds * 1000);
    diagnostics.unattributed.set(name, { reason: REASON, gpu });
  }
  return diagnostics;
}

test('GPU time is hidden behind objects that hold none, or in what is not shown', () => {
  const many = Array.from({ length: 20 }, (_, index) => [`ns/web-${index}`, 0] as const);
  const diagnostics = found({ ...Object.fromEntries(many), 'ns/small': 15, 'ns/large': 45.5 });
  const report = unattributedReport(diagnostics, true);
  expect(report).toMatchObject({ total: 22, gpus: { seconds: 60.5, objects: 2 } });
  expect(report.items).toHaveLength(10);
  expect(report.items.slice(0, 3)).toEqual([
    `ns/large: ${REASON} (45.5 GPU-seconds)`,
    `ns/small: ${REASON} (15 GPU-seconds)`,
    `ns/web-0: ${REASON}`,
  ]);
  // If GPUs are not measured, the report has nothing about them.
  expect(unattributedReport(diagnostics, false)).not.toMatchObject({ gpus: expect.anything() });
});

test('unattributed GPU time fills the log, or appears only in a window’s report', async () => {
  const logger = createCapturingLogger();
  const registry = new Registry();
  const watch = new UnattributedWatch(createCollectorMetrics(registry), logger);
  const close = (objects: Readonly<Record<string, number>>): void => {
    const diagnostics = found(objects);
    watch.note('2026-11-21T09:01:00Z', unattributedReport(diagnostics, true), diagnostics);
  };
  close({ 'ns/web': 0 });
  expect(logger.lines).toEqual([]);
  for (const name of ['ns/job-1', 'ns/job-2', 'ns/job-3']) close({ [name]: 20, 'ns/web': 0 });
  expect(logger.lines).toEqual([
    `warn [metrics] window 09:01:00: 20 GPU-seconds are unattributed, and billed to nobody: ns/job-1: ${REASON} (20 GPU-seconds)`,
  ]);
  close({ 'ns/job-4': 20, 'other/job': 10 });
  expect(logger.lines).toHaveLength(2);
  close({ 'ns/web': 0 });
  close({});
  expect(logger.lines.slice(2)).toEqual(['info [metrics] no GPU time is unattributed any more']);
  const text = await registry.metrics();
  expect(text).toContain('meterfeed_unattributed_gpu_seconds_total 90');
  expect(text).toContain('meterfeed_unattributed_objects 0');
});
