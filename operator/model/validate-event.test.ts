import { describe, expect, test } from 'vitest';
import type { Decimal } from './decimal.ts';
import type { UsageEvent } from './event.ts';
import { eventProblem } from './validate-event.ts';

const event: UsageEvent = {
  schema_version: 'svc.usage/v1',
  id: 'svc1_0123456789abcdef0123456789abcdef',
  tenant: 'tenant-acme-prod',
  metric: 'tenant_gpu_hours',
  quantity: '0.5' as Decimal,
  unit: 'gpu-hours',
  window_start: '2026-11-21T09:00:00Z',
  window_end: '2026-11-21T09:01:00Z',
  recorded_at: '2026-11-21T09:01:03.25Z',
  dimensions: { tenant_cluster: 'tenant-acme-prod', billing_mode: 'shared' },
  properties: { gpu_devices: 8, backfilled: true, reason: 'node not ready' },
  source: 'collector',
};

function problemOf(change: Record<string, unknown>): string | undefined {
  return eventProblem({ ...event, ...change });
}

function repeatedKeys(count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`key_${index}`, 'v']));
}

describe('an event that may enter the ledger', () => {
  test.each([
    {},
    { id: 'a' },
    { id: `${'a'.repeat(98)}.:` },
    { tenant: '\u{1F600}'.repeat(128) },
    { quantity: '0' },
    { quantity: '1000000000000000' },
    { quantity: '0.000000001' },
    { dimensions: repeatedKeys(32) },
    { dimensions: { capacity_type: 'reserved', billing_mode: 'private_node' } },
    { dimensions: undefined, properties: undefined, source: undefined },
  ])('%j', (change) => {
    expect(problemOf(change)).toBeUndefined();
  });
});

describe('an event that may not', () => {
  test.each([
    [{ schema_version: 'svc.usage/v2' }, 'not "svc.usage/v1": schema_version: "svc.usage/v2"'],
    [{ tenant: undefined }, 'missing: tenant: give a value'],
    [{ tenant: '' }, 'empty: tenant: ""'],
    [{ tenant: 'x'.repeat(129) }, `longer than 128 characters: tenant: "${'x'.repeat(63)}…`],
    [{ tenant: 7 }, 'not of type string: tenant: 7'],
    [{ tenant: 'a\nb' }, 'control characters: tenant: "a\\nb"'],
    [{ tenant: 'a\0b' }, 'control characters: tenant: "a\\u0000b"'],
    [{ tenant: 'a\u2028b' }, 'control characters: tenant: "a\u2028b"'],
    [{ tenant: 'a\ud800' }, 'control characters: tenant: "a\\ud800"'],
    [{ id: 'a b' }, 'does not match ^[A-Za-z0-9._:\\-]{1,100}$: id: "a b"'],
    [{ id: 'a\n' }, 'does not match ^[A-Za-z0-9._:\\-]{1,100}$: id: "a\\n"'],
    [{ metric: 'Tenant' }, 'does not match ^[a-z][a-z0-9_]{0,99}$: metric: "Tenant"'],
    [{ quantity: '-1' }, 'not a plain decimal number: quantity: "-1"'],
    [{ quantity: '1.50' }, 'not a plain decimal number: quantity: "1.50"'],
    [{ quantity: '1e3' }, 'not a plain decimal number: quantity: "1e3"'],
    [{ quantity: 0.5 }, 'not of type string: quantity: 0.5'],
    [
      { quantity: '1000000000000000.1' },
      'larger than 1000000000000000: quantity: "1000000000000000.1"',
    ],
    [
      { window_start: '2026-02-30T09:00:00Z' },
      'no such date and time: window_start: "2026-02-30T09:00:00Z"',
    ],
    [
      { window_end: event.window_start },
      'not after window_start "2026-11-21T09:00:00Z": window_end: "2026-11-21T09:00:00Z"',
    ],
    [{ sku: 'x'.repeat(257) }, `longer than 256 characters: sku: "${'x'.repeat(63)}…`],
    [{ dimensions: [] }, 'not of type object: dimensions: []'],
    [{ dimensions: { zone: 1 } }, 'not of type string: dimensions.zone: 1'],
    [
      { dimensions: { zone: 'a\u001b[31m' } },
      'control characters: dimensions.zone: "a\\u001b[31m"',
    ],
    [
      { dimensions: { billing_mode: 'rented' } },
      'not one of shared, dedicated_node, private_node: dimensions.billing_mode: "rented"',
    ],
    [
      { dimensions: { capacity_type: 'Spot' } },
      'not one of on-demand, spot, preemptible, reserved: dimensions.capacity_type: "Spot"',
    ],
    [{ dimensions: { value: '0' } }, 'reserved name: dimensions: "value"'],
    [{ dimensions: { constructor: 'x' } }, 'reserved name: dimensions: "constructor"'],
    [{ dimensions: JSON.parse('{"__proto__":"x"}') }, 'reserved name: dimensions: "__proto__"'],
    [{ dimensions: repeatedKeys(33) }, 'more than 32 keys: dimensions: {"key_0":"v"'],
    [
      { properties: { a: Number.NaN } },
      'not of type string or number or boolean: properties.a: null',
    ],
    [{ properties: { a: {} } }, 'not of type string or number or boolean: properties.a: {}'],
    [{ properties: JSON.parse('{"__proto__":1}') }, 'reserved name: properties: "__proto__"'],
    [{ properties: { prototype: 1 } }, 'reserved name: properties: "prototype"'],
  ] as const)('%j', (change, problem) => {
    expect(problemOf(change)).toContain(problem);
  });

  test('one that is larger than 16 KiB in all, though no field of it is too long', () => {
    const properties = Object.fromEntries(
      Array.from({ length: 32 }, (_, index) => [`p${index}`, 'x'.repeat(1024)]),
    );
    expect(problemOf({ properties })).toMatch(/^larger than 16384 bytes: event: \d+ bytes$/);
  });
});
