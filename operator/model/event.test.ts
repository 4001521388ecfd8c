import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { sortedEntries } from './bytewise.ts';
import { decimalFromNanos } from './decimal.ts';
import { deriveEventId } from './event-id.ts';
import { decodeEvent, encodeEvent, type UsageEvent } from './event.ts';

const event: UsageEvent = {
  schema_version: 'svc.usage/v1',
  id: 'svc1_fcc8869e40498edbc844f2b158979727',
  tenant: 'tenant-acme-prod',
  metric: 'tenant_gpu_hours',
  quantity: decimalFromNanos(133_333_333n),
  unit: 'gpu-hours',
  window_start: '2026-11-21T09:00:00Z',
  window_end: '2026-11-21T09:01:00Z',
  recorded_at: '2026-11-21T09:01:03.250Z',
  region: 'eu-central-1',
  project: 'research',
  sku: 'NVIDIA-H100-80GB-HBM3',
  resource_id: 'tenant-acme-prod',
  dimensions: {
    billing_mode: 'shared',
    capacity_type: 'on-demand',
    gpu_profile: 'full',
    tenant_cluster: 'tenant-acme-prod',
  },
  properties: { gpu_devices: 8, basis: 'requests', backfilled: true },
  source: 'collector',
};

test('the published vector: the id of this identity never changes', () => {
  expect(deriveEventId(event)).toBe('svc1_fcc8869e40498edbc844f2b158979727');
});

test('an absent value and an empty one are the same identity', () => {
  const { project, ...withoutProject } = event;
  expect(project).toBe('research');
  expect(deriveEventId({ ...event, project: '' })).toBe(deriveEventId(withoutProject));
});

test('quantity, properties, source and times of recording are not part of the identity', () => {
  const other: UsageEvent = {
    ...event,
    quantity: decimalFromNanos(1n),
    properties: {},
    recorded_at: '2030-01-01T00:00:00Z',
    source: 'ingest:api',
  };
  expect(deriveEventId(other)).toBe(deriveEventId(event));
});

test.each([
  { tenant: 'other' },
  { metric: 'tenant_lb_hours' },
  { window_start: '2026-11-21T08:59:00Z' },
  { window_end: '2026-11-21T09:02:00Z' },
  { region: 'other' },
  { project: 'other' },
  { sku: 'other' },
  { resource_id: 'other' },
  { dimensions: { ...event.dimensions, zone: 'a' } },
])('another value is another id: %j', (change) => {
  expect(deriveEventId({ ...event, ...change })).not.toBe(deriveEventId(event));
});

test('the order in which dimensions were set does not matter; bytes order them, not code units', () => {
  const astral = { '\u{1F600}': '1', '\uFFFD': '2' };
  const reversed = Object.fromEntries(Object.entries(astral).toReversed());
  expect(deriveEventId({ ...event, dimensions: astral })).toBe(
    deriveEventId({ ...event, dimensions: reversed }),
  );
});

test('every digit survives the ledger line', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 10n ** 24n }), (nanos) => {
      const quantity = decimalFromNanos(nanos);
      expect(decodeEvent(encodeEvent({ ...event, quantity }))).toStrictEqual({
        ...event,
        quantity,
      });
    }),
  );
});

test.each([
  [1n, '0.000000001'],
  [10n ** 24n, '1000000000000000'],
])('%d billionths leave as a plain number', (nanos, text) => {
  const quantity = decimalFromNanos(nanos);
  expect(encodeEvent({ ...event, quantity })).toContain(`"quantity":${text}}`);
});

test('dimensions and properties that are called quantity do not disturb the quantity', () => {
  const odd: UsageEvent = {
    ...event,
    dimensions: { note: '"quantity":7}' },
    properties: { quantity: 5 },
  };
  expect(decodeEvent(encodeEvent(odd))).toStrictEqual(odd);
  expect(JSON.parse(encodeEvent(odd))).toStrictEqual({ ...odd, quantity: 0.133333333 });
});

test('a torn line is an error, not an event', () => {
  expect(() => decodeEvent(encodeEvent(event).slice(0, -5))).toThrow(SyntaxError);
});

test('bytes decide the order of keys, as a comparison of their UTF-8 forms does', () => {
  const keys = fc.array(fc.string({ unit: 'binary' }));
  fc.assert(
    fc.property(keys, (texts) => {
      const expected = [...new Set(texts)].toSorted((a, b) =>
        Buffer.compare(Buffer.from(a), Buffer.from(b)),
      );
      const record = Object.fromEntries(texts.map((text) => [`k${text}`, 1]));
      expect(sortedEntries(record).map(([key]) => key)).toStrictEqual(
        expected.map((text) => `k${text}`),
      );
    }),
  );
});
