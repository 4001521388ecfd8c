import { Gauge, Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { oncePerTick } from './once-per-tick.ts';

test('a hundred scrapes that arrive together are each rendered by themselves, one after the other', async () => {
  const registry = new Registry();
  let value = 0;
  const collect = function collect(this: Gauge): void {
    value += 1;
    this.set(value);
  };
  const help = 'How often it was looked at.';
  registry.registerMetric(new Gauge({ name: 'collected', help, registers: [], collect }));
  const scrape = oncePerTick(() => registry.metrics());
  const texts = await Promise.all(Array.from({ length: 100 }, scrape));
  expect(new Set(texts).size).toBe(1);
  expect(texts[0]).toContain('collected 1');
  await new Promise(setImmediate);
  expect(await scrape()).toContain('collected 2');
});

test('an answer that failed once is given to everybody after', async () => {
  let attempts = 0;
  const query = oncePerTick(async () => {
    attempts += 1;
    if (attempts === 1) throw new Error('not now');
    return attempts;
  });
  await expect(query()).rejects.toThrow('not now');
  await new Promise(setImmediate);
  expect(await query()).toBe(2);
});
