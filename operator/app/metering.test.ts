import { expect, test } from 'vitest';
import { createSettingsStore } from '../settings/settings-store.ts';
import { createMemoryLogger } from '../telemetry/testing/memory-logger.ts';
import { settingsOf } from '../metering/windows/testing/harness.ts';
import { createLiveCatalog } from './metering.ts';

test('CUSTOM_METRICS: metrics of one’s own are in the catalogue, and a policy changes them at once', () => {
  const store = createSettingsStore(settingsOf({ CUSTOM_METRICS: 'llm_tokens:tokens:model' }));
  const none: [] = [];
  const catalog = createLiveCatalog(store, () => none, createMemoryLogger());
  const known = (code: string) => catalog().metrics.find((metric) => metric.code === code);
  expect(known('llm_tokens')).toMatchObject({
    unit: 'tokens',
    source: 'custom',
    dimensions: ['model'],
  });
  expect(known('jobs')).toBeUndefined();
  store.setPolicy({
    metering: { customMetrics: [{ code: 'jobs', unit: 'jobs', dimensions: [] }] },
  });
  expect(known('jobs')).toMatchObject({ unit: 'jobs' });
  expect(known('llm_tokens')).toBeUndefined();
});

test('a policy with an impossible metric leaves the last good catalogue, and is reported', () => {
  const store = createSettingsStore(settingsOf({ CUSTOM_METRICS: 'jobs:jobs' }));
  const logger = createMemoryLogger();
  const none: [] = [];
  const catalog = createLiveCatalog(store, () => none, logger);
  catalog();
  store.setPolicy({
    metering: { customMetrics: [{ code: 'tenant_gpu_hours', unit: 'x', dimensions: [] }] },
  });
  expect(catalog().metrics.map(({ code }) => code)).toContain('jobs');
  expect(logger.lines).toEqual([expect.stringContaining('tenant_gpu_hours')]);
});
