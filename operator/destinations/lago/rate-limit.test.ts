import { afterEach, expect, test } from 'vitest';
import { startFakeLago } from '../../../e2e/fakes/lago/lago.ts';
import { invoiceFees } from '../../../e2e/fakes/lago/billing.ts';
import { Secret } from '../../model/secret.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { createTestContext, testTenant } from '../testing/context.ts';
import { Lago } from './lago.ts';
import { LAGO_NOW, NEVER } from './testing/lago-world.ts';

const TENANT = testTenant({ id: 'acme' });
const closers: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

test('a tenant of more invoices than calls a second is compared all the same', async () => {
  let now = LAGO_NOW;
  const lago = await startFakeLago({
    apiKey: 'key',
    now: () => now,
    rules: { callsPerSecond: 10 },
  });
  closers.push(() => lago.close());
  const sleep = async (ms: number): Promise<void> => {
    now += ms;
  };
  const clock = { ...systemClock, now: () => now, monotonic: () => now, sleep };
  const options = {
    url: lago.url,
    apiKey: new Secret('key'),
    planCode: 'tenant-standard',
    currency: 'USD',
  };
  const destination = new Lago('lago', options, createTestContext(clock));
  closers.push(() => destination.close());
  for (let count = 0; count < 35; count += 1) {
    invoiceFees(lago.state, 'acme', 'USD', 'one_off', [], now);
  }
  const outcome = await destination.invoices.list({ tenant: TENANT, since: 0 }, NEVER);
  expect(outcome).toMatchObject({ kind: 'invoices' });
  expect(lago.requests.filter(({ path }) => path.startsWith('/api/v1/invoices/'))).toHaveLength(35);
});
