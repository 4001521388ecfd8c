import type { Browser, Page } from 'playwright-core';
import axe from 'axe-core';
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
import { launchBrowser, openPage, type PageOptions } from './testing/browser.ts';
import { createEstate } from './testing/estate.ts';

let browser: Browser;

beforeAll(async () => {
  browser = await launchBrowser();
});

afterAll(async () => {
  await browser.close();
});

const EVENT = {
  ...testEvent({
    id: 'e-1',
    tenant: 'acme',
    windowStart: NOW - 3_600_000,
    quantity: '5.000000001',
  }),
  source: 'ingest:api',
};

async function start(environment: Readonly<Record<string, string>> = {}): Promise<TestServer> {
  const ledger = createMemoryLedger();
  await ledger.append({ events: [EVENT] });
  const estate = await createEstate();
  const server: TestServer = await startTestServer({
    ledger,
    environment,
    views: {
      destinations: estate.views(() => server.settings).destinations ?? never(),
      discovery: quietDiscovery({
        tenants: () => [testTenant('acme', { displayName: 'Acme Research' })],
      }),
    },
  });
  return server;
}

function never(): never {
  throw new Error('the estate has no destinations');
}

async function open(server: TestServer, hash: string, options: PageOptions = {}) {
  const watched = await openPage(browser, { token: API_TOKEN, ...options });
  await watched.page.goto(`http://127.0.0.1:${server.port}/${hash}`);
  return watched;
}

async function violations(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  return page.evaluate(async () => {
    const { axe: checker } = globalThis as typeof globalThis & { axe: typeof axe };
    const found = await checker.run();
    return found.violations.map(
      ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`,
    );
  });
}

test('a mistaken event is replaced by who reads its bill, with the keyboard alone, to the last digit', {
  timeout: 60_000,
}, async () => {
  await using server = await start();
  const { page, problems } = await open(server, '#/events/e-1');
  await page.getByText('None: it counts as it was recorded, 5.000000001').waitFor();
  await page.getByRole('button', { name: 'Correct this event…' }).focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Correct this event' });
  await dialog.getByText('Refused the event, so there is nothing to correct').waitFor();
  await dialog.getByText('Accepts no negative quantity').waitFor();
  await dialog.getByText('it receives −5.000000001').first().waitFor();
  await page.getByLabel('Zero: cancel the event').focus();
  await page.keyboard.press('ArrowDown');
  // What is missing is said at its field, and the first of them has the focus.
  await page.keyboard.press('Enter');
  await dialog.getByText('A number of at least 0').waitFor();
  await dialog.getByText('Give a reason').waitFor();
  expect(await page.evaluate('document.activeElement.name')).toBe('quantity');
  for (const scheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    expect(await violations(page)).toStrictEqual([]);
  }
  await page.keyboard.type('3.000000002');
  await dialog.getByText('it receives −1.999999999').first().waitFor();
  await page.keyboard.press('Tab');
  await page.keyboard.type('pushed twice');
  await page.keyboard.press('Tab');
  await page.keyboard.type('ann@example.com');
  await page.keyboard.press('Enter');
  await page.getByText('it counted as 5.000000001').waitFor();
  await page.getByText('counts as 3.000000002').first().waitFor();
  await page.getByRole('row', { name: /−1.999999999 pushed twice ann@example.com/ }).waitFor();
  const stored = await server.ledger.read(0, 10);
  expect(stored).toMatchObject({
    events: [{}, { event: { quantity: '-1.999999999', properties: { corrects: 'e-1' } } }],
  });
  expect(problems).toStrictEqual([]);
  await page.context().close();
});

test('a corrected event shows its correction and a correction its event, also where events are listed', async () => {
  await using server = await start();
  const body = { quantity: 0, reason: 'pushed twice', author: 'ann' };
  await server.call('POST', '/api/v1/events/e-1/corrections', { token: API_TOKEN, body });
  const of = `metric=${EVENT.metric}&tenant=acme&from=${EVENT.window_start}&to=${EVENT.window_end}`;
  const { page } = await open(server, `#/sums?${of}`);
  await page.getByRole('link', { name: 'corrected once' }).click();
  await page.getByText('and counts as 0').waitFor();
  await page.locator('td, th').getByRole('link', { name: /UTC$/ }).first().click();
  await page.getByRole('heading', { name: 'A correction of another event' }).waitFor();
  expect(await page.getByRole('button', { name: 'Correct this event…' }).count()).toBe(0);
  await page.getByRole('link', { name: 'the event', exact: true }).click();
  await page.getByText('and counts as 0').waitFor();
  await page.context().close();
});

test('where nothing can be changed the button says why, and no form is filled in for nothing', async () => {
  await using server = await start({ API_TOKEN: '' });
  const { page } = await open(server, '#/events/e-1', { width: 390 });
  const button = page.getByRole('button', { name: 'Correct this event…' });
  await button.waitFor();
  expect(await button.isDisabled()).toBe(true);
  await page.getByText('It cannot be corrected here: changes need a token').waitFor();
  expect(await violations(page)).toStrictEqual([]);
  await page.context().close();
});

test('the dialog shows what the operator refuses, and what was typed stays', async () => {
  await using server = await start();
  const { page } = await open(server, '#/events/e-1', { width: 360, expectedStatuses: [503] });
  await page.getByRole('button', { name: 'Correct this event…' }).click();
  await page.route('**/corrections', (route) =>
    route.fulfill({ status: 503, json: { error: 'ledger write failed: disk full' } }),
  );
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Reason').fill('pushed twice');
  await dialog.getByLabel('Your name').fill('ann');
  await dialog.getByRole('button', { name: 'Record the correction' }).click();
  await dialog.getByText('Nothing was recorded: ledger write failed: disk full').waitFor();
  expect(await dialog.getByLabel('Reason').inputValue()).toBe('pushed twice');
  const beyond = await dialog.evaluate('document.documentElement.scrollWidth > innerWidth');
  expect(beyond).toBe(false);
  await page.context().close();
});
