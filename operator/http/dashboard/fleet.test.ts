import axe from 'axe-core';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadHeldUsage } from '../../billing/held-usage/testing/held-usage.ts';
import { createMemoryLedger } from '../../ledger/testing/memory-ledger.ts';
import { API_TOKEN, quietViews, startTestServer, type TestServer } from '../testing/test-server.ts';
import { launchBrowser, openPage } from './testing/browser.ts';
import { createShowcase } from './testing/showcase.ts';
import { createTestFleet } from './testing/fleet.ts';

let browser: Browser;
let server: TestServer;

beforeAll(async () => {
  browser = await launchBrowser();
  const showcase = await createShowcase();
  const settings = () => server.settings;
  const held = await loadHeldUsage(createMemoryLedger());
  const complete = () => ({ ...quietViews(settings), held });
  const views = showcase.views(settings);
  // The sums of seven weeks would be made anew for each page.
  const fleet = createTestFleet(createMemoryLedger(), views, settings, complete);
  server = await startTestServer(fleet);
});

afterAll(async () => {
  await server.close();
  await browser.close();
});

const visit = async (hash: string, text: string, width = 1280) => {
  const opened = await openPage(browser, { token: API_TOKEN, width });
  const requested: string[] = [];
  opened.page.on('request', (request) => requested.push(new URL(request.url()).search));
  await opened.page.goto(`http://127.0.0.1:${server.port}/${hash}`);
  await opened.page.getByText(text).filter({ visible: true }).first().waitFor();
  await opened.settled();
  return { ...opened, requested };
};

test('the page of the fleet shows which cluster is healthy, which is silent and which cannot be read, wide or narrow', async () => {
  const { page, problems } = await visit('#/fleet', 'has reported nothing for 312 s');
  const rows = await page.locator('main tbody tr').allInnerTexts();
  expect(rows).toHaveLength(3);
  expect(rows[0]).toMatch(/berlin[\s\S]*metering/);
  expect(rows[1]).toMatch(/paris[\s\S]*silent/);
  expect(rows[2]).toMatch(/rome[\s\S]*is not unique/);
  await page.evaluate(axe.source);
  for (const width of [390, 1280]) {
    await page.setViewportSize({ width, height: 900 });
    const found = await page.evaluate(async () => {
      const { violations } = await (
        globalThis as typeof globalThis & { axe: typeof axe }
      ).axe.run();
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
    });
    expect(found, `${width} pixels wide`).toStrictEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth > innerWidth')).toBe(false);
  }
  expect(problems).toStrictEqual([]);
  await page.context().close();
}, 90_000);

test('one cluster that is picked is queried alone on every page, until all are picked again', async () => {
  const { page, problems, requested } = await visit('#/gaps?range=7d', 'What was not measured');
  expect(requested.filter((search) => search.includes('cluster='))).toEqual([]);
  const picker = page.getByRole('combobox', { name: 'Cluster' });
  await picker.selectOption('paris');
  await page.waitForURL(/#\/@paris\/gaps\?range=7d$/);
  await page.getByRole('link', { name: 'Tenants', exact: true }).click();
  await page.waitForURL(/#\/@paris\/tenants/);
  await page.getByText('Who is billed').waitFor();
  expect(requested.filter((search) => search.includes('cluster=paris')).length).toBeGreaterThan(3);
  const before = requested.length;
  await picker.selectOption('');
  await page.waitForURL(/#\/tenants/);
  await expect.poll(() => requested.length).toBeGreaterThan(before);
  await page.getByText('Who is billed').waitFor();
  const later = requested.slice(before).filter((search) => search.includes('cluster='));
  expect(later).toEqual([]);
  expect(problems).toStrictEqual([]);
  await page.context().close();
}, 90_000);

test('what a hub does not do is not requested of it', async () => {
  const { page, problems } = await visit('#/', 'Usage by tenant');
  expect(await page.getByRole('link', { name: 'Enforcement' }).count()).toBe(0);
  // An answer that refuses is an error of the page.
  expect(problems).toStrictEqual([]);
  await page.context().close();
}, 90_000);
