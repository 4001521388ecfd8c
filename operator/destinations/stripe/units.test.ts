import { assert, bigInt, property, string } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decimalFromNanos, nanosFromDecimal, parseDecimal } from '../../model/decimal.ts';
import { meterName } from './meters.ts';
import { meterValue } from './meter-event.ts';
import { createRateLimiter, createRateLimits, encodeForm } from './stripe-client.ts';
import { gpuEvent } from './testing/stripe-world.ts';

describe('a meter’s name', () => {
  test.each([
    ['H100-80GB', 'tenant_gpu_hours__h100_80gb'],
    ['NVIDIA A100 (SXM4)', 'tenant_gpu_hours__nvidia_a100_sxm4'],
    ['H100-mig-1g.10gb', 'tenant_gpu_hours__h100_mig_1g_10gb'],
    ['', 'tenant_gpu_hours'],
  ])('of %j is %s', (sku, name) => {
    expect(meterName(gpuEvent({ sku }), ['sku'])).toBe(name);
  });

  test('takes every field that the event has, and none twice for nothing', () => {
    const event = gpuEvent({ dimensions: { capacity_type: 'spot' } });
    const name = meterName(event, ['sku', 'capacity_type', 'zone']);
    expect(name).toBe('tenant_gpu_hours__h100_80gb__spot');
    expect(meterName(event, [])).toBe('tenant_gpu_hours');
  });

  test('is never too long, always the same, and different for what is cut off', () => {
    const long = 'x'.repeat(150);
    const [a, b] = [`${long}a`, `${long}b`].map((sku) => meterName(gpuEvent({ sku }), ['sku']));
    expect(a).toHaveLength(100);
    expect(a).toMatch(/^tenant_gpu_hours__x+_[0-9a-f]{8}$/);
    expect(a).not.toBe(b);
    assert(
      property(string({ maxLength: 256 }), (sku) => {
        const name = meterName(gpuEvent({ sku }), ['sku']);
        expect(name).toMatch(/^[a-z0-9_]{1,100}$/);
        expect(meterName(gpuEvent({ sku }), ['sku'])).toBe(name);
      }),
    );
  });
});

test('a value has at most 15 significant digits and is the nearest such number', () => {
  assert(
    property(bigInt({ min: 0n, max: 10n ** 24n }), (nanos) => {
      const quantity = decimalFromNanos(nanos);
      const value = meterValue(quantity);
      expect(value).toMatch(/^\d+(\.\d{1,9})?$/);
      expect(value.replace('.', '').replace(/^0+/, '').replace(/0+$/, '').length).toBeLessThan(16);
      const decimal = parseDecimal(value);
      const digits = String(nanos).length;
      const unit = digits > 15 ? 10n ** BigInt(digits - 15) : 0n;
      const difference = nanosFromDecimal(decimal ?? quantity) - nanos;
      const size = difference < 0n ? -difference : difference;
      expect(size * 2n <= unit).toBe(true);
    }),
  );
});

test('a form has its brackets as they are and everything else encoded', () => {
  const form = encodeForm({
    customer: 'cus_1',
    items: [{ price: 'p&1' }, { id: 'si=1', deleted: true }],
    metadata: { 'a key': 'ü' },
    absent: undefined,
  });
  expect(form).toBe(
    'customer=cus_1&items[0][price]=p%261&items[1][id]=si%3D1&items[1][deleted]=true&metadata[a%20key]=%C3%BC',
  );
});

describe('the rate limit', () => {
  function clock() {
    let time = 0;
    const slept: number[] = [];
    return {
      slept,
      now: () => time,
      monotonic: () => time,
      sleep: async (ms: number) => {
        slept.push(ms);
        time += ms;
      },
    };
  }
  const { signal } = new AbortController();

  test('lets no more pass in a second than it says', async () => {
    const time = clock();
    const pass = createRateLimiter(20, time);
    for (let request = 0; request < 100; request += 1) await pass(signal);
    expect(time.monotonic()).toBeGreaterThanOrEqual(4_650);
    expect(time.monotonic()).toBeLessThanOrEqual(5_000);
  });

  test.each([
    ['sk_test_x', 0, 20, true],
    ['rk_test_x', 0, 20, true],
    ['sk_live_x', 0, 200, false],
    ['rk_live_x', 50, 50, false],
    ['sk_live_x', 5, 5, false],
  ])('of a key %s with BILLING_A_MAX_RPS %i is %i', async (key, most, perSecond, shared) => {
    const limits = createRateLimits(key, most, clock());
    expect(limits.perSecond).toBe(perSecond);
    expect(limits.others === limits.meterEvents).toBe(shared);
  });

  test('keeps meter events and other requests separate in live mode, the others at 20 a second', async () => {
    const time = clock();
    const limits = createRateLimits('sk_live_x', 0, time);
    for (let request = 0; request < 40; request += 1) await limits.others(signal);
    expect(time.monotonic()).toBeGreaterThanOrEqual(1_700);
  });
});
