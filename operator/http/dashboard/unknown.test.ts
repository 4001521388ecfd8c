import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newKey } from '../portal/testing/keys.ts';
import { API_TOKEN, startTestServer, type TestServer } from '../testing/test-server.ts';
import { launchBrowser, openPage, type PageOptions } from './testing/browser.ts';
import { createShowcase } from './testing/showcase.ts';

let browser: Browser;
let server: TestServer;

/** Metering began on October 3rd at 08:00 there. */
beforeAll(async () => {
  browser = await launchBrowser();
  const showcase = await createShowcase();
  server = await startTestServer({
    ledger: showcase.ledger,
    environment: { PORTAL_KEYS: newKey() },
    views: showcase.views(() => server.settings),
  });
});

afterAll(async () => {
  await server.close();
  await browser.close();
});

async function open(hash: string, options: PageOptions = {}): Promise<Page> {
  const { page } = await openPage(browser, { token: API_TOKEN, ...options });
  await page.goto(`http://127.0.0.1:${server.port}/${hash}`);
  return page;
}

const BEFORE = 'from=2026-09-01&to=2026-09-30';
const AROUND = 'from=2026-10-01&to=2026-10-05';

test.each([
  [`#/usage?range=custom&${BEFORE}`, 'Usage is unknown: metering began on 2026-10-03'],
  [`#/?range=custom&${BEFORE}`, 'Usage is unknown: metering began on 2026-10-03'],
  [`#/tenants/globex?range=custom&${BEFORE}`, 'Usage is unknown: metering began on 2026-10-03'],
  ['#/months/2026-09', 'Usage of this month and the one before is unknown'],
  [`#/gaps?range=custom&${BEFORE}`, 'earlier usage is unknown'],
  [
    '#/sums?metric=tenant_gpu_hours&from=2026-09-01T00:00:00Z&to=2026-10-01T00:00:00Z',
    'Usage is unknown',
  ],
])('before metering began %s says that nothing was used', async (hash, text) => {
  const page = await open(hash);
  await page.getByText(text).first().waitFor();
  await page.waitForLoadState('networkidle');
  const shown = (await page.locator('main').textContent()) ?? '';
  expect(shown).not.toMatch(/Nothing was used|No GPU was used|0\.000/);
  await page.context().close();
});

test('a chart draws what was before metering began as zero, or as a gap', async () => {
  const page = await open(`#/usage?range=custom&${AROUND}`);
  await page.locator('.legend').getByText('before metering began').waitFor();
  await page.getByText('The same figures as a table').click();
  await page
    .getByRole('row', { name: /2026-10-01 00:00 \(before metering began\)( unknown)+$/ })
    .waitFor();
  await page.locator('.u-over').hover({ position: { x: 60, y: 50 } });
  const tooltip = page.locator('.tooltip');
  await tooltip.getByText('before metering began').waitFor();
  expect(await tooltip.textContent()).toMatch(/unknown$/);
  await page.context().close();
});

test('a tenant reads that everything was measured before metering began', async () => {
  const path = '/api/v1/tenants/globex/portal-tokens';
  const made = await server.call('POST', path, { token: API_TOKEN });
  const page = await open((made.json as { readonly link: string }).link.slice(1));
  await page.getByText('Usage and cost').waitFor();
  await page.evaluate(`location.hash = '#/?range=custom&${AROUND}'`);
  await page.getByText('until 2026-10-03 08:00 UTC: unknown').waitFor();
  await page.locator('.tile').filter({ hasText: 'Not measured' }).getByText('2 d 8 h').waitFor();
  expect(await page.getByText('Everything was measured').count()).toBe(0);
  await page.context().close();
});

test('"None." stands under an error, as if there were none', async () => {
  const page = await open('', { expectedStatuses: [500] });
  await page.route('**/api/v1/held-tenants', (route) =>
    route.fulfill({ status: 500, json: { error: 'the ledger cannot be read' } }),
  );
  await page.goto(`http://127.0.0.1:${server.port}/#/tenants`);
  await page.reload();
  const card = page.locator('.card').filter({ hasText: 'the ledger cannot be read' });
  await card.waitFor();
  expect(await card.textContent()).not.toContain('None.');
  await page.context().close();
});

test('where gaps cannot be read a chart looks as if there were none', async () => {
  const page = await open('', { expectedStatuses: [500] });
  await page.route('**/api/v1/gaps?*', (route) =>
    route.fulfill({ status: 500, json: { error: 'the ledger cannot be read' } }),
  );
  await page.goto(`http://127.0.0.1:${server.port}/#/usage?range=7d`);
  await page.getByText('Gaps are not marked, because they cannot be read').waitFor();
  await page.context().close();
});

test('a gap with pauses is shown from its beginning to its end', async () => {
  const page = await open('#/gaps');
  await page.getByText('2026-11-20 22:05 UTC to 2026-11-21 06:05 UTC, 6 h of these 8 h').waitFor();
  await page.context().close();
});
