import { readFile } from 'node:fs/promises';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { newKey } from '../portal/testing/keys.ts';
import { bookOf, flat, priceOf } from '../../model/pricing/testing/price-books.ts';
import { API_TOKEN, startTestServer, type TestServer } from '../testing/test-server.ts';
import { launchBrowser, openPage, type PageOptions } from './testing/browser.ts';
import { createShowcase } from './testing/showcase.ts';

let browser: Browser;
let server: TestServer;

beforeAll(async () => {
  browser = await launchBrowser();
  const showcase = await createShowcase();
  server = await startTestServer({
    ledger: showcase.ledger,
    environment: { PORTAL_KEYS: newKey() },
    views: showcase.views(() => server.settings),
  });
  server.settings = {
    ...server.settings,
    pricing: { books: [bookOf([priceOf('tenant_gpu_hours', flat(2.4))])] },
  };
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

/** What a click saves: its name, and its lines. */
async function saved(page: Page, button: string): Promise<readonly [string, readonly string[]]> {
  // What still comes moves buttons.
  await page.waitForLoadState('networkidle');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: button, exact: true }).first().click(),
  ]);
  const text = await readFile(await download.path(), 'utf8');
  return [download.suggestedFilename(), text.trimEnd().split('\r\n')];
}

test.each([
  ['#/months/2026-10?tenant=globex', 'costs_globex_2026-10-01_2026-10-31_EUR.csv'],
  ['#/tenants?range=last-month', 'costs_2026-10-01_2026-10-31_EUR.csv'],
  ['#/tenants/globex?range=last-month', 'costs_globex_2026-10-01_2026-10-31_EUR.csv'],
  [
    '#/usage?range=last-month&tenant=globex',
    'costs_globex_tenant_gpu_hours_2026-10-01_2026-10-31_EUR.csv',
  ],
  ['#/?range=last-month', 'costs_2026-10-01_2026-10-31_EUR.csv'],
])('the button under the costs of %s saves usage without costs', async (hash, name) => {
  const page = await open(hash);
  const [file, [head, ...rows]] = await saved(page, 'Costs as CSV');
  expect(file).toBe(name);
  expect(head).toContain('metric,unit,currency,quantity,unpriced,cost,events');
  expect(rows.some((row) => /,EUR,[\d.]+,,\d+\.\d\d,/.test(row))).toBe(true);
  await page.context().close();
});

test('finance gets the month of a tenant as a FOCUS file, and what it lacks', async () => {
  const page = await open('#/months/2026-10?tenant=globex');
  const [file, [head, ...rows]] = await saved(page, 'FOCUS file');
  expect(file).toBe('focus-1.2_globex_2026-10-01_2026-10-31.csv');
  expect(head).toContain('BilledCost,BillingAccountId');
  expect(rows.length).toBeGreaterThan(10);
  expect(rows.every((row) => row.includes(',globex,'))).toBe(true);
  const [manifest, [text = '']] = await saved(page, 'FOCUS manifest');
  expect(manifest).toBe('focus-1.2_globex_2026-10-01_2026-10-31.json');
  expect(JSON.parse(text)).toMatchObject({ month: '2026-10', files: [{ rows: rows.length }] });
  await page.context().close();
});

test('a month that is shown against the one before cannot be taken away', async () => {
  const page = await open('#/months/2026-11?tenant=globex');
  const [file, lines] = await saved(page, 'November 2026 against October 2026 as CSV');
  expect(file).toBe('month_globex_2026-11-01_2026-11-21.csv');
  expect(lines[0]).toBe('metric,unit,quantity,before,change,compared_with,forecast,events');
  // Metering began on the 3rd of October: the change is not known, and is not 0.
  expect(lines.some((line) => /^tenant_gpu_hours,gpu-hours,[\d.]+,[\d.]+,,,/.test(line))).toBe(
    true,
  );
  await page.context().close();
});

test('who needs decimal commas chooses them again for every file', async () => {
  const page = await open('#/tenants?range=last-month');
  const choice = page.getByLabel('CSV format');
  await choice.selectOption('1234,5, semicolon between, byte order mark');
  await page.goto(`http://127.0.0.1:${server.port}/#/months/2026-10`);
  await page.reload();
  const [, lines] = await saved(page, 'Costs as CSV');
  expect(lines[0]).toBe('\uFEFFmetric;unit;currency;quantity;unpriced;cost;events');
  expect(lines.some((line) => /;EUR;\d+(,\d+)?;;\d+,\d\d;/.test(line))).toBe(true);
  await page.context().close();
});

/** The page of the tenant `globex`. */
async function openPortal(options: PageOptions = {}): Promise<Page> {
  const path = '/api/v1/tenants/globex/portal-tokens';
  const made = await server.call('POST', path, { token: API_TOKEN });
  const { page } = await openPage(browser, options);
  const { link } = made.json as { readonly link: string };
  await page.goto(`http://127.0.0.1:${server.port}${link}`);
  return page;
}

test('finance cannot send a tenant the statement that the tenant can get itself', async () => {
  const page = await open('#/months/2026-10?tenant=globex');
  const [file, [text = '']] = await saved(page, 'Statement of October 2026');
  expect(file).toBe('statement_globex_2026-10.ndjson');
  expect(text.split('\n')[0]).toContain('"tenant":"globex","month":"2026-10"');
  await page.goto(`http://127.0.0.1:${server.port}/#/months/2026-10`);
  await page.getByRole('button', { name: 'FOCUS manifest' }).waitFor();
  expect(await page.getByRole('button', { name: /^Statement/ }).count()).toBe(0);
  await page.context().close();
});

test('a month that is not wholly stored is saved as a file with an error in it', async () => {
  const beforeMetering = 'from=2026-09-01&to=2026-09-30';
  const finance = await open('#/months/2026-09?tenant=globex', { expectedStatuses: [409] });
  const tenant = await openPortal({ expectedStatuses: [409] });
  await tenant.getByText('Usage and cost').waitFor();
  await tenant.evaluate(`location.hash = '#/?range=custom&${beforeMetering}'`);
  for (const [page, advice] of [
    [finance, 'For the statements of later months keep events for 62 days or more (RETENTION).'],
    [tenant, 'Please contact your provider.'],
  ] as const) {
    const files: unknown[] = [];
    page.on('download', (file) => files.push(file));
    await page.getByRole('button', { name: 'Statement of September 2026' }).click();
    const words =
      'There is no statement of September 2026, because not all of its events are stored.';
    await page.getByText(`${words} ${advice}`, { exact: true }).waitFor();
    expect(files).toStrictEqual([]);
    await page.context().close();
  }
});

test('a tenant loads its charges into a finance tool, with those of others in it', async () => {
  const page = await openPortal();
  const [file, [head, ...rows]] = await saved(page, 'FOCUS file');
  expect(file).toBe('focus-1.2_globex_2026-11-01_2026-11-21.csv');
  expect(head).toContain('BilledCost,BillingAccountId');
  expect(rows.length).toBeGreaterThan(10);
  expect(rows.every((row) => row.includes(',globex,'))).toBe(true);
  expect(await page.getByRole('button', { name: 'FOCUS manifest' }).count()).toBe(1);
  await page.context().close();
});

test('a tenant takes its month away in a file that it can check', async () => {
  const page = await openPortal();
  const [file, [text = '']] = await saved(page, 'Statement of November 2026');
  expect(file).toBe('statement_globex_2026-11.ndjson');
  const lines = text.split('\n');
  expect(lines[0]).toContain('"tenant":"globex"');
  expect(lines.at(-1)).toContain('"signature"');
  await page.context().close();
});

test('a tenant takes its own costs away, as it reads numbers', async () => {
  const page = await openPortal();
  const [file, lines] = await saved(page, 'Costs as CSV');
  expect(file).toBe('costs_globex_2026-11-01_2026-11-21_EUR.csv');
  expect(lines.length).toBeGreaterThan(1);
  await page.context().close();
});
