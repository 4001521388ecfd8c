import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { testEvent } from '../../ledger/testing/events.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import {
  API_TOKEN,
  NOW,
  quietDiscovery,
  startTestServer,
  testTenant,
  type TestServer,
} from '../testing/test-server.ts';
import { launchBrowser, openPage } from './testing/browser.ts';

const HOUR_MS = 3_600_000;
const SCREEN = { width: 1440, height: 900 };

let browser: Browser;
let server: TestServer;

/** A thousand tenants, of which the last one used most. */
beforeAll(async () => {
  browser = await launchBrowser();
  const ids = Array.from({ length: 1000 }, (_, index) => `tenant-${index + 1}`);
  const ledger = createMemoryLedger();
  await ledger.append({
    events: ids.flatMap((tenant, index) =>
      (['tenant_gpu_hours', 'tenant_instance_hours'] as const).map((metric) => ({
        ...testEvent({ tenant, quantity: `${index + 1}`, windowStart: NOW - HOUR_MS }),
        id: `${tenant}-${metric}`,
        metric,
      })),
    ),
  });
  const tenants = ids.map((id, index) => testTenant(id, { displayName: `Customer ${index + 1}` }));
  server = await startTestServer({
    ledger,
    views: { discovery: quietDiscovery({ tenants: () => tenants }) },
  });
});

afterAll(async () => {
  await server.close();
  await browser.close();
});

async function open(hash: string): Promise<Page> {
  const { page, settled } = await openPage(browser, { token: API_TOKEN, width: SCREEN.width });
  await page.goto(`http://127.0.0.1:${server.port}/${hash}`);
  await page
    .getByRole('row', { name: /Customer/ })
    .first()
    .waitFor();
  await settled();
  return page;
}

test.each(['#/', '#/tenants', '#/usage', '#/months/2026-11'])(
  '%s is a page of a thousand rows',
  async (hash) => {
    const page = await open(hash);
    const height = Number(await page.evaluate('document.documentElement.scrollHeight'));
    expect(height).toBeLessThanOrEqual(3 * SCREEN.height);
    await page.getByText('1 to 20 of 1').first().waitFor();
    await page.context().close();
  },
);

test('the largest of a thousand tenants, or one by its name or id, is found by turning fifty pages', async () => {
  const page = await open('#/tenants');
  const used = page.getByRole('region', { name: /^Sums from/ });
  const first = used.getByRole('rowheader').first();
  await used.getByRole('button', { name: /^GPU hours/ }).click();
  await expect.poll(() => first.textContent()).toBe('Customer 1000');
  await used.getByRole('button', { name: /^GPU hours/ }).click();
  await expect.poll(() => first.textContent()).toBe('Customer 1');
  const sorted = used.locator('[aria-sort]');
  expect(await sorted.evaluateAll((all) => all.map((one) => one.ariaSort))).toStrictEqual([
    'ascending',
  ]);
  await page.getByLabel(/^Search: Sums from/).fill('customer 77');
  await page.getByText('1 to 11 of 11').waitFor();
  await page.getByLabel(/^Search: Sums from/).fill('TENANT-512');
  await expect.poll(() => first.textContent()).toBe('Customer 512');
  await page.getByLabel(/^Search: Sums from/).fill('nobody');
  await page.getByText('No row has it').waitFor();
  await page.getByLabel(/^Search: Sums from/).fill('');
  const pages = page.getByRole('navigation', { name: /^Pages: Sums from/ });
  expect(await pages.getByRole('button', { name: 'Back' }).isDisabled()).toBe(true);
  await pages.getByRole('button', { name: 'Next' }).click();
  await page.getByText('21 to 40 of 1').waitFor();
  await expect.poll(() => first.textContent()).toBe('Customer 21');
  await page.context().close();
});
